//go:build integration && services

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// troubleWords are what no log of a service that was left unharmed contains.
var troubleWords = regexp.MustCompile(`(?i)\b(error|crit|alert|emerg|fatal|panic|crash(ed)?|bug report|segmentation|assert\w*|terminated by|signal 11|exited on signal)\b`)

// checkLog requires a log without trouble, and shows what is in it.
func checkLog(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if troubleWords.MatchString(line) {
			t.Errorf("%s logged: %s", name, line)
		}
	}
}

func readLog(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// load runs a load generator to its end and returns what it said.
func load(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", filepath.Base(argv[0]), err, out)
	}
	return string(out)
}

// redis is a connection to a redis-server, whose protocol is lines.
type redis struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// startRedis starts a server of its own on a socket.
func startRedis(t *testing.T) (server *spawned, socket, log string) {
	t.Helper()
	dir := t.TempDir()
	socket, log = filepath.Join(dir, "redis.sock"), filepath.Join(dir, "redis.log")
	server = spawn(t, exec.Command(need(t, "redis-server"), "--port", "0", "--unixsocket", socket, "--dir", dir,
		"--logfile", log, "--save", "", "--appendonly", "no", "--daemonize", "no", "--activerehashing", "yes"))
	eventually(t, "redis-server listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return server, socket, log
}

func dialRedis(t *testing.T, socket string) *redis {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &redis{t, conn, bufio.NewReader(conn)}
}

// ask sends an inline command and returns its answer: a line, or a bulk string.
func (r *redis) ask(command string) string {
	r.t.Helper()
	_ = r.conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(r.conn, command+"\r\n"); err != nil {
		r.t.Fatal(err)
	}
	line, err := r.in.ReadString('\n')
	if err != nil {
		r.t.Fatalf("redis, asked %q: %v", command, err)
	}
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "$") {
		return line
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 || n > 1<<20 {
		r.t.Fatalf("redis, asked %q, answered %q", command, line)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(r.in, text); err != nil {
		r.t.Fatal(err)
	}
	return string(text[:n])
}

// info reads a number of INFO.
func (r *redis) info(key string) uint64 {
	r.t.Helper()
	text := r.ask("INFO everything")
	match := regexp.MustCompile(`(?m)^` + key + `:(\d+)`).FindStringSubmatch(text)
	if match == nil {
		r.t.Fatalf("INFO has no %s", key)
	}
	n, err := strconv.ParseUint(match[1], 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// atRest waits until nothing goes on in redis, and returns its used_memory.
func (r *redis) atRest() (used uint64) {
	r.t.Helper()
	eventually(r.t, "redis is at rest", func() bool {
		before := used
		used = r.info("used_memory")
		return used == before && r.info("connected_clients") == 1
	})
	return used
}

// TestRedis loads a server with strings and compares the growth of the live
// heap with the growth of used_memory.
//
// used_memory sums the usable sizes of jemalloc, whose classes lie 16 bytes
// apart up to 128 and at most a quarter apart above (jemalloc(3), size
// classes). So a block uses from as many bytes as were asked for to
// a quarter and 15 bytes more. What redis asked for before the attach and has
// given back since counts against used_memory only: at most what it used then.
func TestRedis(t *testing.T) {
	t.Parallel()
	server, socket, log := startRedis(t)
	r := dialRedis(t, socket)
	began := r.info("used_memory")
	m := startTracing(t, []int{server.pid()}, "-d", "600s")
	load(t, need(t, "redis-benchmark"), "-s", socket, "-q", "-n", "30000", "-c", "20", "-r", "25000", "-d", "1000", "-t", "set,get,lpush,lpop,sadd")
	before := r.atRest()
	report := m.interrupt() // alone of all Reports it is sure to have all events
	after := r.info("used_memory")
	live, blocks := processOf(t, report, server.pid()).Heap.LiveBytes, processOf(t, report, server.pid()).Heap.LiveCount
	least, most := min(before, after), max(before, after) // its clock may have given back or taken some meanwhile
	t.Logf("redis used %d bytes, and uses %d to %d; %d are live in %d blocks", began, least, most, live, blocks)
	if least < began+10<<20 {
		t.Fatalf("the load made redis grow from %d to %d bytes only", began, least)
	}
	if low, high := live-min(live, began), live+live/4+15*blocks; most-began < low || least-began > high {
		t.Errorf("used_memory grew by %d to %d, which is not from %d to %d", least-began, most-began, low, high)
	}
	checkSound(t, report, server.pid())
	if got := r.ask("PING"); got != "+PONG" {
		t.Errorf("after the trace redis answers %q", got)
	}
	server.signal(unix.SIGTERM)
	server.end()
	checkLog(t, "redis-server", readLog(t, log))
}

// lastPort is below those that the kernel gives to whoever asks for none (ip_local_port_range).
var lastPort atomic.Int32

// freePort finds a TCP port of the loopback that nobody uses, nor will by chance, until the caller listens there.
func freePort(t *testing.T) int {
	t.Helper()
	for range 10_000 {
		port := 20_000 + int(lastPort.Add(1))
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("10,000 ports of the loopback are taken")
	return 0
}

// childrenOf lists the children of a process, in order of age.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, child)
	}
	return pids
}

const nginxConfig = `
daemon off;
worker_processes 1;
user nobody nogroup;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log notice;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen 127.0.0.1:%[2]d;
		location / { return 200 "served\n"; }
	}
}
`

func startNginx(t *testing.T) (master *spawned, url, log string) {
	t.Helper()
	program := need(t, "nginx")
	dir, port := t.TempDir(), freePort(t)
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, port), 0o644); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(dir, "error.log")
	address := fmt.Sprintf("127.0.0.1:%d", port)
	master = spawn(t, exec.Command(program, "-p", dir, "-e", log, "-c", config))
	eventually(t, "nginx listens and has a worker", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil && len(childrenOf(t, master.pid())) == 1
	})
	return master, "http://" + address + "/", log
}

// interruptWrk ends wrk, which then says what it saw.
func interruptWrk(wrk *spawned) string {
	wrk.t.Helper()
	wrk.signal(unix.SIGINT)
	wrk.end()
	var said strings.Builder
	for line := range wrk.lines {
		said.WriteString(line + "\n")
	}
	return said.String()
}

// TestNginx traces a worker while wrk asks it for pages.
func TestNginx(t *testing.T) {
	t.Parallel()
	master, url, log := startNginx(t)
	worker := childrenOf(t, master.pid())[0]
	wrk := need(t, "wrk")
	client := spawn(t, exec.Command(wrk, "-t", "1", "-c", "8", "-d", "600s", url)) // outlives the trace
	m := startTracing(t, []int{worker})
	for m.report().Events.Free < 100_000 {
	}
	checkSound(t, m.interrupt(), worker)
	said := interruptWrk(client)
	t.Log(said)
	// Its last number are answers that took more than two seconds, which they may on a busy machine.
	failed := regexp.MustCompile(`Socket errors: connect \d+, read \d+, write \d+`).FindString(said)
	if strings.Contains(said, "Non-2xx") || failed != "" && failed != "Socket errors: connect 0, read 0, write 0" {
		t.Errorf("wrk saw errors:\n%s", said)
	}
	if after := load(t, wrk, "-t", "1", "-c", "1", "-d", "1s", url); !strings.Contains(after, "Requests/sec") || strings.Contains(after, "Non-2xx") {
		t.Errorf("after the trace nginx serves:\n%s", after)
	}
	if got := childrenOf(t, master.pid()); len(got) != 1 || got[0] != worker {
		t.Errorf("the worker was %d, the workers are %v", worker, got)
	}
	master.signal(unix.SIGQUIT)
	master.end()
	checkLog(t, "nginx", readLog(t, log))
}
