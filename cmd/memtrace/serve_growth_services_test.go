//go:build integration && services

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
)

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
	a := startGrowthAgent(t, "interval: 3s\nservices: [{name: shop, program: "+name+", growth: true}]\n", filepath.Join(t.TempDir(), "data"))
	eventually(t, "the shell is watched", func() bool { return a.growth(t, "shop").Watch.Processes == 1 })
	if n := service.leaked(t); n != children {
		t.Fatalf("%d children, want %d", n, children)
	}
	// On a machine so busy that they take more than a minute, the tracer costs too much before it has had its most.
	var w agent.WatchState
	defer func() {
		if t.Failed() {
			t.Logf("%+v: %s", w, a.said.String())
		}
	}()
	eventually(t, "the children are counted, or cost too much", func() bool {
		w = a.growth(t, "shop").Watch
		return w.Missed == 1+children-1024 || w.Pauses > 0
	})
	if w.Pauses > 0 {
		if w.Missed > 1+children-1024 {
			t.Error("more were missed than there were")
		}
		eventually(t, "the log says why it is let alone", func() bool {
			return strings.Contains(a.said.String(), "it cost too much")
		})
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

// An agent that may not trace says so, and goes on with what it may.
func TestServeWithoutPrivileges(t *testing.T) {
	t.Parallel()
	command, data := unprivileged(t, "sys_ptrace")
	const name = "leaky_forbidden"
	service := startLeaky(t, copyAs(t, "slow_leak", name))
	a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+", growth: true}]\n", data, command...)
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
