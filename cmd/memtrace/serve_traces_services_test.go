//go:build integration && services

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs"
)

// traceOf is the last trace that an alert had made; nil: there was none.
func (a *growthAgent) traceOf(t *testing.T, alert string) *agent.TraceState {
	t.Helper()
	var is struct {
		Alerts []struct {
			Alert string
			Trace *agent.TraceState
		}
	}
	if err := json.Unmarshal([]byte(fetchText(t, a.address+"/alerts")), &is); err != nil {
		t.Fatal(err)
	}
	for _, s := range is.Alerts {
		if s.Alert == alert && s.Trace != nil {
			return s.Trace
		}
	}
	return nil
}

// traced waits until an alert's trace has come so far.
func (a *growthAgent) traced(t *testing.T, alert, state string) (s *agent.TraceState) {
	t.Helper()
	eventually(t, "the trace of "+alert+" is "+state, func() bool {
		s = a.traceOf(t, alert)
		if s != nil && s.State != state && (s.State == "done" || s.State == "failed") {
			t.Fatalf("the trace of %s is %s: %+v: %s", alert, s.State, s, a.said)
		}
		return s != nil && s.State == state
	})
	return s
}

// recordedTrace waits until a trace of shop has recorded some of its leak, and returns the recording and who writes it.
func (a *growthAgent) recordedTrace(t *testing.T) (file string, tracer int) {
	t.Helper()
	a.traced(t, "leak", "running")
	eventually(t, "the trace is recorded", func() bool {
		all, _ := filepath.Glob(filepath.Join(a.data, "services/shop/traces/*.memtrace"))
		if s := a.traceOf(t, "leak"); s == nil || s.State != "running" {
			t.Fatalf("the trace is %+v: %s", s, a.said)
		}
		file = strings.Join(all, " ")
		return len(all) == 1
	})
	recordingHolds(t, file, 1)
	tracers := tracersOf(t, a.cmd.Process.Pid)
	if len(tracers) != 1 {
		t.Fatalf("tracers %v", tracers)
	}
	return file, tracers[0]
}

// auditOf are the entries of a kind.
func auditOf(t *testing.T, data, what string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e["what"] == what {
			all = append(all, e)
		}
	}
	return all
}

// An alert has another user's service traced in full, with what the unit gives the agent's own user and no more. The
// recording names the line that leaks, with a verdict, and so do the audit log and /alerts. The service runs unharmed, and has
// no probe afterwards.
func TestServeTracesOnAnAlert(t *testing.T) {
	t.Parallel()
	const name, other = "leaky_traced", "65533"
	service := startLeaky(t, "setpriv", "--reuid="+other, "--regid="+other, "--clear-groups", copyAs(t, "slow_leak", name))
	before := service.leaked(t)
	command, data := unprivileged(t, capabilitiesOf(t, "memtrace.service", "memtrace-trace.conf")...)
	config := "interval: 1s\nservices: [{name: shop, program: " + name + ", growth: true}]\n" +
		"alerts: [{name: leak, when: rss(shop)>4KiB, for: 0s, trace: {for: 8s}}, {name: again, when: rss(sho*)>4KiB, for: 3s, trace: 8s}]\n"
	a := startGrowthAgent(t, config, data, command...)
	s := a.traced(t, "leak", "done")
	if s.Why != "its time was over" || s.Found == nil || s.Found.Checked != 1 || s.Found.Lost != 0 {
		t.Fatalf("%+v, %+v", s, s.Found)
	}
	pid := service.cmd.Process.Pid
	eventually(t, "the probes are gone", func() bool { return patchedBytes(t, pid) == 0 })
	leaked := service.leaked(t) - before
	if top := s.Found.Top; top == nil || top.Function != "remember" || !strings.HasSuffix(top.File, "slow_leak.c") || top.Kind != "definite" ||
		top.Bytes == 0 || top.Bytes > leaked || len(s.Found.Leaks) == 0 || s.Found.Leaks[0] != (agent.LeakFound{Kind: "definite", Bytes: top.Bytes, Blocks: top.Blocks}) {
		t.Errorf("%+v, %+v; it has leaked %d bytes", s.Found, s.Found.Top, leaked)
	}
	out, err := memtraceCommand(t, "report", s.File, "--format", "json").Output()
	var r report.Report
	if err != nil || json.Unmarshal(out, &r) != nil {
		t.Fatalf("memtrace report: %v: %s", err, out)
	}
	found := slices.ContainsFunc(r.Leaks, func(l report.Leak) bool { return l.Kind == "definite" && l.Bytes == s.Found.Top.Bytes })
	if !found || heldByRemember(&r) < s.Found.Top.Bytes || len(r.Processes) != 1 || r.Processes[0].PID != pid || r.Basis == report.FirstTouchBasis {
		t.Errorf("the recording has %+v of %d processes", r.Leaks, len(r.Processes))
	}
	all := a.recordings(t, "shop")
	if !slices.ContainsFunc(all, func(x agent.Segment) bool { return x.File == s.File && x.Kind == "trace" }) ||
		!slices.ContainsFunc(all, func(x agent.Segment) bool { return x.Kind == "growth" }) {
		t.Errorf("recordings %+v", all)
	}
	eventually(t, "another alert fires for the service", func() bool { s := a.traceOf(t, "again"); return s != nil && s.Dropped != "" })
	metrics := fetchText(t, a.address+"/metrics")
	for _, want := range []string{"memtrace_trace_started_total 1", "memtrace_trace_failed_total 0", "memtrace_trace_dropped_total 1", "memtrace_trace_running 0", "memtrace_trace_waiting 0"} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("there is no %s in %s", want, metrics)
		}
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(metrics)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
	a.end(t)
	service.end(t)
	a.checkTraceAudit(t, pid, s)
	if said := a.said.String(); strings.Contains(said, "permission denied") || !strings.Contains(said, "most by remember ") ||
		!strings.Contains(said, "warning: rule shop: every user can call a process so") {
		t.Errorf("%s", said)
	}
}

// checkTraceAudit looks whether a trace is in the audit log from begin to end.
func (a *growthAgent) checkTraceAudit(t *testing.T, pid int, s *agent.TraceState) {
	t.Helper()
	file := "traces/" + filepath.Base(s.File)
	started, ended := auditOf(t, a.data, "trace_started"), auditOf(t, a.data, "trace_ended")
	if len(started) != 1 || len(ended) != 1 {
		t.Fatalf("%v, %v", started, ended)
	}
	if e := started[0]; e["service"] != "shop" || e["why"] != "alert leak: trace" || e["file"] != file {
		t.Errorf("%v", e)
	}
	e := ended[0]
	text, _ := json.Marshal(e["found"])
	if e["service"] != "shop" || e["why"] != s.Why || e["file"] != file || e["cpu_seconds"] == nil || e["seconds"] == nil || !strings.Contains(string(text), `"function":"remember"`) {
		t.Errorf("%v", e)
	}
	for _, what := range []string{"process_traced", "process_left"} {
		if !slices.ContainsFunc(auditOf(t, a.data, what), func(e map[string]any) bool {
			return e["pid"] == float64(pid) && (what == "process_left" || e["why"] == "alert leak: trace")
		}) {
			t.Errorf("there is no %s of the trace", what)
		}
	}
}

// Whatever ends the agent ends a trace, at once and in good order: its recording is whole, and nothing is left in the service.
// A reload that takes the alert away ends none.
func TestServeTraceEndsWithTheAgent(t *testing.T) {
	t.Parallel()
	for what, signal := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := "traced_" + what
			service := startLeaky(t, copyAs(t, "slow_leak", name))
			rule := "interval: 1s\nservices: [{name: shop, program: " + name + "}]\n"
			a := startGrowthAgent(t, rule+"alerts: [{name: leak, when: rss(shop)>4KiB, for: 0s, trace: 10m}]\n", filepath.Join(t.TempDir(), "data"))
			file, tracer := a.recordedTrace(t)
			if err := os.WriteFile(a.config, []byte(rule), 0o644); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the alert is gone", func() bool { return a.traceOf(t, "leak") == nil })
			if metrics := fetchText(t, a.address+"/metrics"); !strings.Contains(metrics, "memtrace_trace_running 1\n") {
				t.Errorf("a reload has ended the trace: %s", metrics)
			}
			if err := a.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = a.cmd.Wait()
			eventually(t, "the trace ends", func() bool { return syscall.Kill(tracer, 0) != nil })
			if !endedInOrder(t, file) {
				t.Error("the recording was not ended in good order")
			}
			eventually(t, "the probes are gone", func() bool { return patchedBytes(t, service.cmd.Process.Pid) == 0 })
			service.leaked(t)
			service.end(t)
			if ended := auditOf(t, a.data, "trace_ended"); signal == syscall.SIGTERM && (len(ended) != 1 || ended[0]["why"] != "the agent ended") {
				t.Errorf("%v: %s", ended, a.said)
			}
		})
	}
}

// A tracer that is killed, also along with its agent, leaves the service unharmed and without a probe, and what it has
// recorded. An agent that lives on says what became of the trace.
func TestServeTraceKilled(t *testing.T) {
	t.Parallel()
	for what, both := range map[string]bool{"tracer": false, "both": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := "killed_" + what
			service := startLeaky(t, copyAs(t, "slow_leak", name))
			a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+"}]\n"+
				"alerts: [{name: leak, when: rss(shop)>4KiB, for: 0s, trace: 10m}]\n", filepath.Join(t.TempDir(), "data"))
			file, tracer := a.recordedTrace(t)
			if err := syscall.Kill(tracer, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if both {
				_ = a.cmd.Process.Kill()
				_ = a.cmd.Wait()
			} else if s := a.traced(t, "leak", "failed"); !strings.HasSuffix(s.Why, "signal: killed") || s.File != file || s.Found != nil {
				t.Errorf("%+v", s)
			}
			eventually(t, "the probes are gone", func() bool { return patchedBytes(t, service.cmd.Process.Pid) == 0 })
			service.leaked(t)
			recordingHolds(t, file, 1)
			if !both {
				if metrics := fetchText(t, a.address+"/metrics"); !strings.Contains(metrics, "memtrace_trace_failed_total 1\n") ||
					!strings.Contains(metrics, "memtrace_trace_running 0\n") {
					t.Errorf("%s", metrics)
				}
				a.end(t)
				if ended := auditOf(t, a.data, "trace_ended"); len(ended) != 1 || !strings.HasSuffix(ended[0]["why"].(string), "signal: killed") {
					t.Errorf("%v", ended)
				}
			}
			service.end(t)
		})
	}
}

// An agent that may not trace says so as it starts. The trace fails, and the audit log and a metric have that.
func TestServeTraceWithoutPrivileges(t *testing.T) {
	t.Parallel()
	command, data := unprivileged(t, "sys_ptrace")
	const name = "traced_denied"
	service := startLeaky(t, copyAs(t, "slow_leak", name))
	a := startGrowthAgent(t, "interval: 1s\nservices: [{name: shop, program: "+name+"}]\nalerts: [{name: leak, when: rss(shop)>4KiB, for: 0s, trace: 1m}]\n", data, command...)
	if s := a.traced(t, "leak", "failed"); !strings.Contains(s.Why, "exit status 77") || s.File != "" { // nothing was recorded
		t.Errorf("%+v", s)
	}
	if metrics := fetchText(t, a.address+"/metrics"); !strings.Contains(metrics, "memtrace_trace_failed_total 1\n") {
		t.Errorf("%s", metrics)
	}
	a.end(t)
	service.end(t)
	if ended := auditOf(t, data, "trace_ended"); len(ended) != 1 || !strings.Contains(ended[0]["why"].(string), "exit status 77") || ended[0]["file"] != nil {
		t.Errorf("%v", ended)
	}
	if said := a.said.String(); !strings.Contains(said, "alerts ask for traces, which will fail: missing: CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_BPF, ") {
		t.Errorf("it doesn't say what is missing: %s", said)
	}
}

// Who has ended, or has the ID of one that has, is left out of a trace, and the rest is traced. Where nobody is left, it fails.
func TestTraceForAnAlertLeavesOutWhoIsNotMeant(t *testing.T) {
	t.Parallel()
	service, stranger := startLeaky(t, copyAs(t, "slow_leak", "leaky_meant")), startLeaky(t, copyAs(t, "slow_leak", "leaky_other"))
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	meant, other, gone := service.cmd.Process.Pid, stranger.cmd.Process.Pid, ended.Process.Pid
	wrong := []agent.Order{{PID: gone, StartTime: 1}, {PID: other, StartTime: startOf(t, other) - 1}}
	file := filepath.Join(t.TempDir(), "x.memtrace")
	lines, err := traceOrdered(t, file, append(wrong, agent.Order{PID: meant, StartTime: startOf(t, meant)}))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%v: %+v", err, lines)
	}
	if r := lines[0].Refused; len(r) != 2 || r[0].PID != gone || r[1].PID != other || !strings.Contains(r[1].Why, "another process has had its ID since") {
		t.Errorf("%+v", r)
	}
	if e := lines[1].Ended; e == nil || e.Early || e.RecordError != "" || !e.TimeOver || e.Found.Checked != 1 {
		t.Errorf("%+v", e)
	}
	out, err := memtraceCommand(t, "report", file, "--format", "json").Output()
	var r report.Report
	if err != nil || json.Unmarshal(out, &r) != nil || len(r.Processes) != 1 || r.Processes[0].PID != meant {
		t.Errorf("%v: %+v", err, r.Processes)
	}
	lines, err = traceOrdered(t, filepath.Join(t.TempDir(), "none.memtrace"), wrong)
	if err == nil || len(lines) != 1 || len(lines[0].Refused) != 2 {
		t.Errorf("%v: %+v", err, lines)
	}
	checkUnprobed(t, other)
	service.end(t)
	stranger.end(t)
}

// traceOrdered is a trace of two seconds, as an agent has it made.
func traceOrdered(t *testing.T, file string, orders []agent.Order) (all []agent.TraceFeed, err error) {
	t.Helper()
	cmd := memtraceCommand(t, "record", "--output", file, "--duration", "2s", "--leaks", "--follow=false", "--at-exit", "off", "--max-overhead", "5%")
	cmd.Env = append(cmd.Env, agent.StartedByServe+"=1")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	to := json.NewEncoder(in)
	for _, o := range orders {
		if err := to.Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	// stdin stays open: its end would end the trace.
	err = cmd.Wait()
	for from := json.NewDecoder(&out); from.More(); {
		var f agent.TraceFeed
		if err := from.Decode(&f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if t.Failed() || err != nil {
		t.Logf("it said: %s", &said)
	}
	return all, err
}

// startOf is when a process began, clock ticks since boot.
func startOf(t *testing.T, pid int) uint64 {
	t.Helper()
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	st, err := p.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return st.StartTime
}
