//go:build integration && services

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// leakyService is a private copy of slow_leak under a name of its own, so that a rule can mean it alone.
type leakyService struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startLeaky(t *testing.T, command ...string) *leakyService {
	t.Helper()
	s := &leakyService{cmd: exec.Command(command[0], command[1:]...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() }) // it has ended, unless the test failed
	return s
}

// leaked is what it says that it has leaked by now, bytes.
func (s *leakyService) leaked(t *testing.T) uint64 {
	t.Helper()
	if _, err := io.WriteString(s.in, "?\n"); err != nil {
		t.Fatalf("the service was harmed: %v", err)
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the service was harmed: %v", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// end ends it. It was not harmed if it ends as it should.
func (s *leakyService) end(t *testing.T) {
	t.Helper()
	_ = s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the service: %v", err)
	}
}

// copyAs is a copy of a test program under another name.
func copyAs(t *testing.T, program, name string) string {
	t.Helper()
	return copyOf(t, testProgram(program), name)
}

// copyOf is a copy of a file in a folder that all may read.
func copyOf(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "memtrace") // another user may have to read it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, name)
	if err := errors.Join(proctest.WriteProgram(path, text), os.Chmod(dir, 0o755), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// growthAgent is a memtrace serve that watches growth.
type growthAgent struct {
	cmd                   *exec.Cmd
	address, config, data string
	said                  *bytes.Buffer
}

// startGrowthAgent has the rules of config, and a folder. command is memtrace, with what is to go before it; none: as it is.
func startGrowthAgent(t *testing.T, config, data string, command ...string) *growthAgent {
	t.Helper()
	dir, err := os.MkdirTemp("", "memtrace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "memtrace.yaml")
	if err := errors.Join(os.WriteFile(file, []byte(config), 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		command = []string{self}
	}
	command = append(command, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data", data)
	a := &growthAgent{cmd: exec.Command(command[0], command[1:]...), config: file, data: data, said: new(bytes.Buffer)}
	const notForTracers = "MEMTRACE_RECORD_LEAKS=true" // somebody's default for record, which is refused without probes
	a.cmd.Env, a.cmd.Stderr = append(os.Environ(), asMemtrace+"=1", notForTracers), a.said
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it said nothing: %v; %s", a.cmd.Wait(), a.said)
	}
	a.address = strings.TrimSuffix(line, "/\n")
	return a
}

func (a *growthAgent) end(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, a.said)
	}
}

type growthAnswer struct {
	Watch agent.WatchState
	Sites []agent.Site
}

func (a *growthAgent) growth(t *testing.T, service string) (g growthAnswer) {
	t.Helper()
	if err := json.Unmarshal([]byte(fetchText(t, a.address+"/services/"+service+"/growth")), &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// growsBy waits until the site with most growth is remember's, and has grown by so much.
func (a *growthAgent) growsBy(t *testing.T, service string, bytes uint64) (top agent.Site) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s grows by %d bytes", service, bytes), func() bool {
		g := a.growth(t, service)
		if len(g.Sites) > 0 {
			top = g.Sites[0]
		}
		return len(g.Sites) > 0 && top.Function == "remember" && top.Grown >= bytes
	})
	return top
}

// recordings are those of a service, the oldest first.
func (a *growthAgent) recordings(t *testing.T, service string) (all []agent.Segment) {
	t.Helper()
	if err := json.Unmarshal([]byte(fetchText(t, a.address+"/services/"+service+"/recordings")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// recordingHolds waits until a recording has so many bytes of the leak, and returns what memtrace report says of it then. What is being
// written is a second behind what the agent was told, and more on a busy machine.
func recordingHolds(t *testing.T, file string, bytes uint64) (r report.Report) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("memtrace report %s: %s", file, last)
		}
	}()
	eventually(t, fmt.Sprintf("%s holds %d bytes of the leak", file, bytes), func() bool {
		out, err := memtraceCommand(t, "report", file, "--format", "json").Output()
		last = fmt.Sprintf("%v, %.2000s", err, out)
		r = report.Report{}
		return err == nil && json.Unmarshal(out, &r) == nil && heldByRemember(&r) >= bytes
	})
	return r
}

func heldByRemember(r *report.Report) (live uint64) {
	for _, s := range r.Sites {
		if slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return f.Function == "remember" }) {
			live += s.LiveBytes
		}
	}
	return live
}

// A service that leaks among a dozen others is named by its call stack: in JSON, in a metric, in a profile that go tool
// pprof reads, and in a recording that memtrace report reads. Nothing in it was touched. A restart changes nothing.
func TestServeNamesTheLeak(t *testing.T) {
	t.Parallel()
	const name = "leaky_named"
	path := copyAs(t, "slow_leak", name)
	var others []*leakyService
	for i := range 12 {
		others = append(others, startLeaky(t, copyAs(t, "slow_leak", fmt.Sprintf("other_%d", i))))
	}
	service := startLeaky(t, path)
	before := service.leaked(t)
	a := startGrowthAgent(t, "interval: 1s\nsite_metrics: 1\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(t.TempDir(), "data"))
	const enough = 32 << 10
	top := a.growsBy(t, "shop", enough)
	grew := service.leaked(t) - before
	if top.Grown > grew+8192 || !strings.HasSuffix(top.File, "slow_leak.c") || !slices.Contains(top.Stack, "handle_request") || !slices.Contains(top.Stack, "main") {
		t.Errorf("%+v; the service has leaked %d bytes", top, grew)
	}
	checkUnprobed(t, service.cmd.Process.Pid)
	if metrics := fetchText(t, a.address+"/metrics"); !strings.Contains(metrics, `memtrace_watch_site_grown_bytes{service="shop",site="remember `) ||
		!strings.Contains(metrics, `memtrace_watch_up{service="shop"} 1`) || !strings.Contains(metrics, `memtrace_watch_lost_events_total{service="shop"} 0`) {
		t.Errorf("metrics %s", metrics)
	} else {
		check := exec.Command("promtool", "check", "metrics")
		check.Stdin = strings.NewReader(metrics)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v: %s", err, out)
		}
	}
	a.checkProfiles(t)

	service.end(t)
	eventually(t, "the service's end is noticed", func() bool { return a.growth(t, "shop").Watch.Processes == 0 })
	service = startLeaky(t, path)
	eventually(t, "the service is watched after its restart", func() bool { return a.growth(t, "shop").Watch.Processes == 1 })
	again := a.growsBy(t, "shop", 2*enough) // the new process alone: what the first one held is nobody's any more
	if leaked := service.leaked(t); again.Grown > leaked+8192 || again.Touched < top.Touched+2*enough {
		t.Errorf("%+v; the new process has leaked %d bytes, and before it %+v", again, leaked, top)
	}
	if g := a.growth(t, "shop"); g.Watch.Starts != 1 {
		t.Errorf("%+v", g)
	}
	all := a.recordings(t, "shop")
	if len(all) != 1 {
		t.Fatalf("recordings %+v", all)
	}
	if r := recordingHolds(t, all[0].File, enough); r.Basis != report.FirstTouchBasis || len(r.Processes) != 2 {
		t.Errorf("the recording: basis %q, %d processes", r.Basis, len(r.Processes))
	}
	pid := service.cmd.Process.Pid
	service.end(t)
	a.end(t)
	for _, o := range others {
		o.end(t)
	}
	checkAudit(t, a.data, pid)
}

// A profile of a time before is what the recording has of then: what had leaked by then, in both of two processes. That of a
// span is what leaked in it, and go tool pprof reads it.
func TestServeProfilesThePast(t *testing.T) {
	t.Parallel()
	const name, enough = "leaky_past", 16 << 10
	path := copyAs(t, "slow_leak", name)
	services := []*leakyService{startLeaky(t, path), startLeaky(t, path)}
	leaked := func() uint64 { return services[0].leaked(t) + services[1].leaked(t) }
	before := leaked()
	config := "interval: 1s\nservices: [{name: shop, program: " + name + ", growth: true}]\n"
	a := startGrowthAgent(t, config, filepath.Join(t.TempDir(), "data"))
	eventually(t, "both are watched", func() bool { return a.growth(t, "shop").Watch.Processes == 2 })
	grown := a.growsBy(t, "shop", enough).Grown
	at := time.Now()
	grew := leaked() - before
	a.growsBy(t, "shop", 3*grew)
	recordingHolds(t, a.recordings(t, "shop")[0].File, 2*grew)
	query := a.address + "/debug/pprof/allocs?service=shop&at=" + at.UTC().Format(time.RFC3339Nano)
	p, err := profile.ParseData([]byte(fetchText(t, query)))
	if err != nil {
		t.Fatal(err)
	}
	was, again := inUseOf(p, "remember")
	if was < grown || was > grew+2*8192 || again != 0 || p.DurationNanos != 0 || p.TimeNanos != at.UnixNano() {
		t.Errorf("in use were %d bytes, want from %d to %d; %d stacks are there again; %v", was, grown, grew, again, p)
	}
	later := time.Now()
	eventually(t, "the recording has come as far", func() bool { return a.recordings(t, "shop")[0].End.After(later) })
	a.checkSpan(t, at, later, was)
	a.end(t)
	for _, s := range services {
		s.end(t)
	}
}

// checkSpan holds the profile of a span to those of its ends: it is what one has more than the other.
func (a *growthAgent) checkSpan(t *testing.T, from, to time.Time, before uint64) {
	t.Helper()
	query := a.address + "/debug/pprof/allocs?service=shop"
	written := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	end, err := profile.ParseData([]byte(fetchText(t, query+"&at="+written(to))))
	if err != nil {
		t.Fatal(err)
	}
	after, _ := inUseOf(end, "remember")
	text := fetchText(t, query+"&kind=live&from="+written(from)+"&to="+written(to))
	span, err := profile.ParseData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var new int64
	for _, s := range span.Sample {
		for _, l := range s.Location {
			if l.Line[0].Function.Name == "remember" {
				new += s.Value[1]
			}
		}
	}
	// As the clock on the wall has it, which the query has, too.
	lasts := to.Round(0).Sub(from.Round(0)).Nanoseconds()
	if uint64(new) != after-before || after <= before || span.DurationNanos != lasts || len(span.SampleType) != 2 {
		t.Errorf("%d bytes are new in the span, and there were %d before and %d after; %v", new, before, after, span)
	}
	file := filepath.Join(t.TempDir(), "span.pb.gz")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-top", "-unit=b", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Type: inuse_space") || !strings.Contains(string(out), fmt.Sprintf("%dB", new)) {
		t.Errorf("go tool pprof: %v\n%s", err, out)
	}
}

// inUseOf is a function's inuse_space, and how many of its stacks are there more than once.
func inUseOf(p *profile.Profile, function string) (bytes uint64, again int) {
	seen := make(map[string]bool)
	for _, s := range p.Sample {
		in := func(l *profile.Location) bool {
			return slices.ContainsFunc(l.Line, func(l profile.Line) bool { return l.Function.Name == function })
		}
		if slices.ContainsFunc(s.Location, in) {
			bytes += uint64(s.Value[3])
			var stack []uint64
			for _, l := range s.Location {
				stack = append(stack, l.ID)
			}
			if key := fmt.Sprint(stack); seen[key] {
				again++
			} else {
				seen[key] = true
			}
		}
	}
	return bytes, again
}

// checkProfiles reads the profile as go tool pprof and as scrapers do.
func (a *growthAgent) checkProfiles(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "allocs.pb.gz")
	if err := os.WriteFile(file, []byte(fetchText(t, a.address+"/debug/pprof/allocs?service=shop")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"inuse_space", "alloc_space"} {
		out, err := exec.Command("go", "tool", "pprof", "-top", "-cum", "-sample_index="+kind, file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "remember") || !strings.Contains(string(out), "File: leaky_named") {
			t.Errorf("go tool pprof -sample_index=%s: %v: %s", kind, err, out)
		}
	}
	// Parca takes a profile for a delta exactly when it has a duration.
	for query, delta := range map[string]bool{"": false, "&seconds=2": true} {
		p, err := profile.ParseData([]byte(fetchText(t, a.address+"/debug/pprof/allocs?service=shop"+query)))
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		for _, s := range p.SampleType {
			types = append(types, s.Type+"/"+s.Unit)
		}
		if (p.DurationNanos != 0) != delta || fmt.Sprint(types) != "[alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes]" || *p.PeriodType != (profile.ValueType{Type: "space", Unit: "bytes"}) {
			t.Errorf("%q: duration %d, %v, period %v", query, p.DurationNanos, types, p.PeriodType)
		}
	}
	var targets []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal([]byte(fetchText(t, a.address+"/http_sd")), &targets); err != nil || len(targets) != 1 || "http://"+targets[0].Targets[0] != a.address || targets[0].Labels["__param_service"] != "shop" {
		t.Errorf("http_sd %+v, %v", targets, err)
	}
}

// checkAudit looks whether a process's trace is in the audit log, from begin to end, and who read of it.
func checkAudit(t *testing.T, data string, pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"what":"tracer_started","service":"shop","why":"rule shop: growth"`, fmt.Sprintf(`"what":"process_traced","service":"shop","why":"rule shop: growth","pid":%d,"program":"leaky_named"`, pid),
		fmt.Sprintf(`"what":"process_left","service":"shop","pid":%d`, pid), `"what":"tracer_ended","service":"shop"`, `"what":"read","service":"shop","from":"127.0.0.1","path":"/debug/pprof/allocs"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the audit log lacks %s: %s", want, text)
		}
	}
}

// An agent that is killed leaves the service as it was, no tracer, and a recording that can be read; the next one goes on
// beside it.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	const name = "leaky_killed"
	service := startLeaky(t, copyAs(t, "slow_leak", name))
	config, data := "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(t.TempDir(), "data")
	a := startGrowthAgent(t, config, data)
	a.growsBy(t, "shop", 8<<10)
	first := a.recordings(t, "shop")[0].File
	tracers := tracersOf(t, a.cmd.Process.Pid)
	if len(tracers) != 1 {
		t.Fatalf("tracers %v", tracers)
	}
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = a.cmd.Wait()
	eventually(t, "the tracer ends", func() bool { return syscall.Kill(tracers[0], 0) != nil })
	recordingHolds(t, first, 8<<10)
	if !endedInOrder(t, first) {
		t.Error("the tracer of an agent that was killed has not ended its recording in good order")
	}
	next := startGrowthAgent(t, config, data)
	next.growsBy(t, "shop", 8<<10)
	if all := next.recordings(t, "shop"); len(all) != 2 || all[0].File != first {
		t.Errorf("recordings %+v", all)
	}

	// A tracer that is killed has a successor, and takes nothing along of what it has written.
	recordingHolds(t, next.recordings(t, "shop")[1].File, 1)
	tracers = tracersOf(t, next.cmd.Process.Pid)
	if err := syscall.Kill(tracers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another tracer runs", func() bool { g := next.growth(t, "shop"); return g.Watch.Starts == 2 && g.Watch.Processes == 1 })
	next.growsBy(t, "shop", 8<<10)
	for i, s := range next.recordings(t, "shop") {
		recordingHolds(t, s.File, 1)
		if ended := endedInOrder(t, s.File); ended != (i == 0) { // the next was killed, and the last goes on
			t.Errorf("recording %d was ended in good order: %v", i, ended)
		}
	}
	next.end(t)
	service.end(t)
}

// endedInOrder reports whether a recording has what its tracer wrote at its end: the last Report.
func endedInOrder(t *testing.T, file string) bool {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	_, ended := r.Stored()
	return ended
}

// systemd gives SIGTERM to all processes of a unit at once, and to those that are left when the agent has crashed. The
// recordings are ended in good order all the same, and nothing is said to have failed.
func TestServeStoppedBySystemd(t *testing.T) {
	t.Parallel()
	for what, crashed := range map[string]bool{"stopped": false, "crashed": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := "leaky_" + what
			service := startLeaky(t, copyAs(t, "slow_leak", name))
			a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(t.TempDir(), "data"))
			a.growsBy(t, "shop", 8<<10)
			file, tracers := a.recordings(t, "shop")[0].File, tracersOf(t, a.cmd.Process.Pid)
			if crashed {
				if err := a.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			for _, pid := range tracers {
				if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Fatal(err)
				}
			}
			if crashed {
				_ = a.cmd.Wait()
			} else {
				a.end(t)
			}
			eventually(t, "the tracer ends", func() bool { return syscall.Kill(tracers[0], 0) != nil })
			if !endedInOrder(t, file) {
				t.Error("the recording was not ended in good order")
			}
			if strings.Contains(a.said.String(), "the tracer failed") {
				t.Errorf("%s", a.said)
			}
			service.end(t)
		})
	}
}

// Children that come after a tracer has had its most are not watched, and a metric says how many. 1,024 processes are
// listed: a shell and 1,023 of its children.
func TestServeCountsChildrenThatItMisses(t *testing.T) {
	t.Parallel()
	const name, children = "forking_shop", 1100
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("read go; i=0; while [ $i -lt %d ]; do (:); i=$((i+1)); done; echo %[1]d; read end; exit 0", children)
	service := startLeaky(t, copyOf(t, shell, name), "-c", script)
	a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(t.TempDir(), "data"))
	eventually(t, "the shell is watched", func() bool { return a.growth(t, "shop").Watch.Processes == 1 })
	if n := service.leaked(t); n != children {
		t.Fatalf("%d children, want %d", n, children)
	}
	// On a machine so busy that they take more than a minute, the tracer costs too much before it has had its most.
	var w agent.WatchState
	eventually(t, "the children are counted, or cost too much", func() bool {
		w = a.growth(t, "shop").Watch
		return w.Missed == 1+children-1024 || w.Pauses > 0
	})
	if w.Pauses > 0 {
		if w.Missed > 1+children-1024 || !strings.Contains(a.said.String(), "it cost too much") {
			t.Errorf("%+v: %s", w, a.said.String())
		}
		a.end(t)
		service.end(t)
		return
	}
	want := fmt.Sprintf(`memtrace_watch_missed_processes_total{service="shop"} %d`, 1+children-1024)
	if metrics := fetchText(t, a.address+"/metrics"); !strings.Contains(metrics, want) {
		t.Errorf("there is no %s in %s", want, metrics)
	}
	// A pass may have met a child that had not ended. The shell itself is watched to the end.
	eventually(t, "no child is left", func() bool { return a.growth(t, "shop").Watch.Unwatched == 0 })
	a.end(t)
	service.end(t)
}

// tracersOf are the children of all threads of an agent.
func tracersOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, n)
		}
	}
	return children
}

// With a disk that is full, from the start or at some time, growth is watched all the same, and a metric says that nothing is
// recorded.
func TestServeOnAFullDisk(t *testing.T) {
	t.Parallel()
	for what, size := range map[string]int64{"from the start": 1 << 20, "later": 140 << 20} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, size)
			name := "leaky_full_" + what[:1]
			service := startLeaky(t, copyAs(t, "slow_leak", name))
			a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(disk, "data"))
			a.growsBy(t, "shop", 8<<10)
			if what == "later" {
				if g := a.growth(t, "shop"); g.Watch.Recording == "" || g.Watch.HistoryFails != 0 {
					t.Errorf("%+v", g.Watch)
				}
				fill(t, disk)
			}
			eventually(t, "the agent says that nothing is recorded", func() bool { return a.growth(t, "shop").Watch.HistoryFails == 1 })
			metrics := fetchText(t, a.address+"/metrics")
			for _, want := range []string{`memtrace_history_recording{service="shop"} 0`, `memtrace_history_errors_total{service="shop"} 1`, `memtrace_watch_up{service="shop"} 1`} {
				if !strings.Contains(metrics, want) {
					t.Errorf("there is no %s in %s", want, metrics)
				}
			}
			grown := a.growth(t, "shop").Sites[0].Grown
			a.growsBy(t, "shop", grown+8<<10)
			if g := a.growth(t, "shop"); !strings.Contains(g.Watch.Problem, "nothing is recorded") || g.Watch.Recording != "" || g.Watch.Starts != 1 {
				t.Errorf("%+v", g.Watch)
			}
			a.end(t)
			service.end(t)
		})
	}
}

// smallDisk is a folder of so many bytes.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// fill leaves no byte free.
func fill(t *testing.T, disk string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Statfs_t
	if err := syscall.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize); err != nil {
		t.Fatal(err)
	}
}

// An agent that may not trace says so, and goes on with what it may.
func TestServeWithoutPrivileges(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self = openFolder(t, self)
	data := filepath.Join(filepath.Dir(self), "data")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	const name = "leaky_forbidden"
	service := startLeaky(t, copyAs(t, "slow_leak", name))
	a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", data,
		"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+sys_ptrace", "--ambient-caps=-all,+sys_ptrace", "--bounding-set=-all,+sys_ptrace", self)
	eventually(t, "it says that it may not trace", func() bool { return strings.Contains(a.growth(t, "shop").Watch.Problem, "exit status 77") })
	metrics := fetchText(t, a.address+"/metrics")
	for _, want := range []string{`memtrace_watch_up{service="shop"} 0`, `memtrace_service_processes{service="shop"} 1`, `memtrace_watch_unwatched_processes{service="shop"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("there is no %s in %s", want, metrics)
		}
	}
	a.end(t)
	service.end(t)
	if !strings.Contains(a.said.String(), "growth of shop: ") || !strings.Contains(a.said.String(), "CAP_BPF") {
		t.Errorf("it doesn't say what is missing: %s", a.said)
	}
}

// A rule that asks for growth no longer, by a changed file, has its tracer end; one that begins to has one begin.
func TestServeFollowsItsRules(t *testing.T) {
	t.Parallel()
	const name = "leaky_ruled"
	service := startLeaky(t, copyAs(t, "slow_leak", name))
	a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+"}]\n", filepath.Join(t.TempDir(), "data"))
	if _, err := os.Stat(a.data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that nothing needs: %v", err)
	}
	rewrite := func(growth bool) {
		if err := os.WriteFile(a.config, fmt.Appendf(nil, "interval: 1s\nservices: [{name: shop, program: %s, growth: %v}]\n", name, growth), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(true)
	eventually(t, "the service is watched", func() bool { return strings.Contains(fetchText(t, a.address+"/http_sd"), "shop") })
	a.growsBy(t, "shop", 4<<10)
	rewrite(false)
	eventually(t, "the service is let alone", func() bool { return strings.TrimSpace(fetchText(t, a.address+"/http_sd")) == "[]" })
	eventually(t, "the tracer ends", func() bool { return len(tracersOf(t, a.cmd.Process.Pid)) == 0 })
	a.end(t)
	service.end(t)
}

// A service that nobody watches has no profile, and an agent that watches none has an empty list.
func TestServeWithoutGrowth(t *testing.T) {
	t.Parallel()
	address := serving(t, "")
	if text := fetchText(t, address+"/http_sd"); strings.TrimSpace(text) != "[]" {
		t.Errorf("http_sd %q", text)
	}
	for _, path := range []string{"/debug/pprof/allocs", "/debug/pprof/allocs?service=x", "/services/x/growth", "/services/x/recordings"} {
		answer, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
}
