//go:build integration && services

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A loaded service is under load, and answers requests one by one.
type loadedService struct {
	pids     []int
	request  func() error // one request, as a client makes it
	jemalloc bool         // its heap cannot be read from outside
	end      func()       // requires that it was not harmed
}

// scansAsked is how many leak checks of each kind every service gets: a few, or
// MEMTRACE_SCANS, for an hour's worth at one a minute.
func scansAsked(t *testing.T) int {
	t.Helper()
	text := os.Getenv("MEMTRACE_SCANS")
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("MEMTRACE_SCANS is %q", text)
	}
	return n
}

// TestLeakScansUnderLoad checks services for leaks while they are under load,
// from outside and traced. Nothing that is called definite may be pointed to
// from anywhere, and none of the services may come to harm. It says what the
// checks do to the time that a request takes: in its log, and for
// docs/benchmarks.md in files in the folder MEMTRACE_SCANS_OUT.
func TestLeakScansUnderLoad(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *loadedService{
		"Redis": loadRedis, "Nginx": loadNginx, "Postgres": loadPostgres, "Python": loadPython,
	} {
		t.Run(name, func(t *testing.T) {
			if !figuresKept() {
				t.Parallel() // with the other services alone, which load both processors
			}
			s := start(t)
			n := scansAsked(t)
			part := func(what string, checks int, fn func(t *testing.T)) {
				t.Run(what, func(t *testing.T) { measureRequests(t, s, requestTimes{Service: name, What: what, Checks: checks}, fn) })
			}
			part("alone", 0, func(*testing.T) { time.Sleep(aloneFor()) })
			if s.jemalloc {
				refuseUntraced(t, s.pids[0])
			} else {
				part("checked from outside", n, func(t *testing.T) { checkUntraced(t, s.pids, n) })
			}
			if figuresKept() { // to compare with; else the traces that check say the same of the service
				part("traced", 0, func(t *testing.T) { checkTraced(t, s.pids, max(2, n/10), false) })
			}
			part("traced and checked", n, func(t *testing.T) { checkTraced(t, s.pids, n, true) })
			s.end()
		})
	}
}

// aloneFor is how long a service's requests are measured without a check, if
// anybody keeps the figures: else one is made.
func aloneFor() time.Duration {
	if !figuresKept() {
		return 0
	}
	return 5 * time.Second
}

func figuresKept() bool { return os.Getenv("MEMTRACE_SCANS_OUT") != "" }

// requestTimes is how long the requests took that a service answered, in ns;
// testdata/bench/leakparts.go reads it.
type requestTimes struct {
	Service, What, Load string
	Checks, Requests    int
	P50, P99, Longest   time.Duration
}

// measureRequests makes requests while fn runs.
func measureRequests(t *testing.T, s *loadedService, r requestTimes, fn func(*testing.T)) {
	t.Helper()
	load, _, _ := strings.Cut(readLog(t, "/proc/loadavg"), " ")
	stop, done := make(chan struct{}), make(chan struct{})
	var times []time.Duration
	go func() {
		defer close(done)
		for {
			began := time.Now()
			if err := s.request(); err != nil {
				t.Errorf("a request, %s: %v", r.What, err)
				return
			}
			times = append(times, time.Since(began))
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	fn(t)
	close(stop)
	<-done
	if len(times) == 0 {
		t.Fatal("no request was answered")
	}
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[int(q*float64(len(times)-1))].Round(time.Microsecond) }
	r.Load, r.Requests, r.P50, r.P99, r.Longest = load, len(times), at(0.5), at(0.99), at(1)
	t.Logf("%+v", r)
	dir := os.Getenv("MEMTRACE_SCANS_OUT")
	if dir == "" || t.Failed() {
		return
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, r.Service+" "+r.What+".json"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func pidList(pids []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ","), "[]")
}

// checkUntraced checks the processes n times from outside.
func checkUntraced(t *testing.T, pids []int, n int) {
	t.Helper()
	for range n {
		out, err := memtraceCommand(t, "leaks", "-p", pidList(pids), "--format", "json").Output()
		if err != nil {
			t.Fatalf("memtrace leaks: %v", err)
		}
		r := parseReport(t, string(out))
		for _, p := range r.Processes {
			if p.LeakCheck.Scans < 2 || p.HeapWalk.CoveredBytes == 0 || p.Heap.LiveCount == 0 {
				t.Errorf("process %d: %+v, %+v", p.PID, p.LeakCheck, p.HeapWalk)
			}
		}
		noneDefinite(t, r, pids)
	}
}

// checkTraced traces the processes n times for some seconds, with a check at the end.
func checkTraced(t *testing.T, pids []int, n int, check bool) {
	t.Helper()
	for range n {
		args := []string{"-p", pidList(pids), "--format", "json", "-d", "1s", "-i", "1s"}
		if check {
			args = append(args, "--leaks")
		}
		out, err := memtraceCommand(t, args...).Output()
		if err != nil {
			t.Fatalf("memtrace %v: %v", args, err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		r := parseReport(t, lines[len(lines)-1])
		if check {
			noneDefinite(t, r, pids)
		}
	}
}

// noneDefinite requires that all processes were checked, and that nothing in
// the whole process points to what is called definite. PostgreSQL does lose
// some blocks as it starts (its -D option, and the copy of its environment that
// setenv replaces).
func noneDefinite(t *testing.T, r *report.Report, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if p := processOf(t, r, pid); p.LeakCheck == nil {
			t.Errorf("process %d was not checked", pid)
		}
	}
	for i := range r.Leaks {
		l := &r.Leaks[i]
		if l.Kind != "definite" {
			continue
		}
		site, lost := r.Site(l.Site), uint64(0)
		for _, s := range l.Samples {
			if lost += s.Count; s.Count != 1 || pointedTo(t, l.PID, s.Address, site.Group.Size) {
				t.Errorf("process %d: %+v is no leak: %+v", l.PID, l, site.Group)
			}
		}
		if lost != l.Count {
			t.Errorf("process %d: %+v\n%+v", l.PID, l, site)
		}
	}
}

// pointedTo searches all memory that a process can write, free memory and dead
// stacks included, for a pointer into a block, by reading it from end to end.
func pointedTo(t *testing.T, pid int, block string, size uint64) bool {
	t.Helper()
	start, err := strconv.ParseUint(block, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for line := range strings.Lines(readLog(t, fmt.Sprintf("/proc/%d/maps", pid))) {
		var from, to uint64
		var perms string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &perms); err != nil || !strings.HasPrefix(perms, "rw") {
			continue
		}
		bytes := make([]byte, to-from)
		if n, _ := mem.ReadAt(bytes, int64(from)); n != len(bytes) { // shared memory behind its file's end cannot be read
			bytes = bytes[:n&^7]
		}
		for at := 0; at < len(bytes); at += 8 {
			if word := binary.LittleEndian.Uint64(bytes[at:]); word >= start && word < start+size {
				t.Logf("%#x in %s points to %s", from+uint64(at), strings.TrimSpace(line), block)
				return true
			}
		}
	}
	return false
}

// refuseUntraced requires that a heap of jemalloc's is refused with a remedy.
func refuseUntraced(t *testing.T, pid int) {
	t.Helper()
	out, err := memtraceCommand(t, "leaks", "-p", strconv.Itoa(pid)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "its allocator is jemalloc") || !strings.Contains(string(out), fmt.Sprintf("memtrace -p %d --leaks", pid)) {
		t.Errorf("memtrace leaks: %v, %s", err, out)
	}
}

// endLoad ends a load generator that would go on.
func endLoad(load *spawned) {
	_ = load.cmd.Process.Kill()
	<-load.exited
}

func loadRedis(t *testing.T) *loadedService {
	t.Helper()
	server, socket, log := startRedis(t)
	r := dialRedis(t, socket)
	load := spawn(t, exec.Command(need(t, "redis-benchmark"), "-s", socket, "-q", "-l", "-n", "100000", "-c", "4", "-r", "25000", "-d", "300",
		"-t", "set,get,lpush,lpop,sadd,zadd"))
	go func() {
		for range load.lines { // it prints its progress all the time
		}
	}()
	return &loadedService{
		pids: []int{server.pid()}, jemalloc: true,
		request: func() error { r.ask("INCR probe"); return nil },
		end: func() {
			endLoad(load)
			if got := r.ask("PING"); got != "+PONG" {
				t.Errorf("asked PING, redis answered %q", got)
			}
			checkLog(t, "redis", readLog(t, log))
		},
	}
}

func loadNginx(t *testing.T) *loadedService {
	t.Helper()
	master, url, log := startNginx(t)
	worker := childrenOf(t, master.pid())[0]
	load := spawn(t, exec.Command(need(t, "wrk"), "-t", "1", "-c", "4", "-d", "3600s", url))
	client := &http.Client{Timeout: patience}
	return &loadedService{
		pids: []int{master.pid(), worker},
		request: func() error {
			answer, err := client.Get(url)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "served\n" {
				return fmt.Errorf("nginx answered %q (%v)", text, err)
			}
			return nil
		},
		end: func() {
			endLoad(load)
			if got := childrenOf(t, master.pid()); len(got) != 1 || got[0] != worker {
				t.Errorf("the worker was %d, the workers are %v", worker, got)
			}
			master.signal(unix.SIGQUIT)
			master.end()
			checkLog(t, "nginx", readLog(t, log))
		},
	}
}

func loadPostgres(t *testing.T) *loadedService {
	t.Helper()
	c := startCluster(t)
	pgbench := postgresProgram(t, "pgbench")
	if out, err := asPostgres(t, pgbench, "-h", c.dir, "-n", "-i", "-q", "-s", "1", "postgres").CombinedOutput(); err != nil {
		t.Fatalf("pgbench: %v\n%s", err, out)
	}
	load := spawn(t, asPostgres(t, pgbench, "-h", c.dir, "-n", "-c", "2", "-T", "3600", "postgres"))
	ask := c.session()
	backend, own := pgbenchBackend(t, ask), int(number(ask, "select pg_backend_pid()"))
	return &loadedService{
		pids: []int{c.server.pid(), backend, own},
		request: func() error {
			number(ask, "select count(*) from pgbench_accounts where aid < 100")
			return nil
		},
		end: func() {
			endLoad(load)
			ask.end()
			c.server.signal(unix.SIGTERM)
			c.server.end()
		},
	}
}

// pythonService answers each line with the length of a document that it makes
// and takes apart, while two threads do the like for themselves.
const pythonService = `
import json, os, re, socketserver, sys, threading

def work(i, cache):
    table = {str(k): [k] * (k % 50) for k in range(100 + i % 100)}
    text = json.dumps(table)
    back = json.loads(text)
    cache[i % 500] = (bytearray(1000 + i % 5000), text[:600 + i % 900], back)
    re.compile("a%db+" % (i % 700))
    return len(text)

def churn(seed):
    cache, i = {}, seed
    while True:
        i += 1
        work(i, cache)

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        cache, i = {}, 0
        for line in self.rfile:
            i += 1
            self.wfile.write(b"%d\n" % work(i, cache))

for n in range(2):
    threading.Thread(target=churn, args=(n * 1000,), daemon=True).start()
with socketserver.ThreadingUnixStreamServer(sys.argv[1], Handler) as server:
    server.daemon_threads = True
    print("ready", flush=True)
    server.serve_forever()
`

func loadPython(t *testing.T) *loadedService {
	t.Helper()
	dir := t.TempDir()
	script, socket := filepath.Join(dir, "service.py"), filepath.Join(dir, "socket")
	if err := os.WriteFile(script, []byte(pythonService), 0o644); err != nil {
		t.Fatal(err)
	}
	server := spawn(t, exec.Command(need(t, "python3"), "-I", script, socket))
	server.lineWith("ready")
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReader(conn)
	request := func() error {
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, "work\n"); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		var n int
		if json.Unmarshal([]byte(line), &n) != nil || n < 1000 {
			return fmt.Errorf("the service answered %q", line)
		}
		return nil
	}
	return &loadedService{pids: []int{server.pid()}, request: request, end: func() {
		if said := server.errors.String(); said != "" {
			t.Errorf("the service complains: %s", said)
		}
	}}
}
