package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

const (
	// fullMemory is a trace's own limit: beyond it, it keeps fewer stacks and blocks, and counts them.
	fullMemory = "256MiB"
	// checkPatience is how long a trace may take beside its time: to attach, and to check for leaks.
	checkPatience = 2 * time.Minute
)

// fullTrace is a trace of a service in full: a memtrace of its own, as a tracer of growth is, and for the same reasons. It
// follows no children and holds no process: it makes no use of ptrace.
type fullTrace struct {
	agent  *Agent
	job    *traceJob
	cmd    *exec.Cmd
	orders io.WriteCloser
	lines  io.Reader
	path   string // of the recording
	traced map[collect.Identity]member

	// What it told.
	refused string // why it could not trace the last of those that it left out
	result  *TraceResult
	broken  error // why there is no result
}

// traceService traces a service for an alert. It returns when that is over, in good order also when ctx ends.
func (a *Agent) traceService(ctx context.Context, j *traceJob) (e traceEnd) {
	h, began := a.watches.folder(), time.Now()
	path, err := h.beginTrace(j.service, began)
	if err != nil {
		return a.noTrace(j, err)
	}
	defer func() {
		h.endTrace()
		a.watches.pruneSoon.Store(true)
	}()
	t := &fullTrace{agent: a, job: j, path: path, traced: make(map[collect.Identity]member)}
	if err := t.start(); err != nil {
		return a.noTrace(j, err)
	}
	a.audit.write(auditEntry{
		What: auditFullTrace, Service: j.service, Why: j.why(), PID: t.cmd.Process.Pid, File: audited(path),
	})
	t.order()
	e = t.await(ctx)
	e.took, e.cpu = time.Since(began), t.cmd.ProcessState.UserTime()+t.cmd.ProcessState.SystemTime()
	where := "there is no recording"
	if _, err := os.Stat(path); err == nil { // it has no name before something is recorded
		e.file, where = path, path
	}
	for id, m := range t.traced {
		a.audit.write(auditEntry{
			What: auditTraceEnd, Service: j.service, PID: id.PID, Program: m.program, Seconds: e.took.Seconds(),
		})
	}
	a.audit.write(auditEntry{
		What: auditFullEnd, Service: j.service, Why: e.why, PID: t.cmd.Process.Pid, File: audited(e.file),
		Seconds: e.took.Seconds(), CPUSeconds: e.cpu.Seconds(), Found: e.results,
	})
	a.log.Printf("alert %s: the trace of %q took %v: %s: %s: %s", j.alert, j.service, e.took.Round(time.Second), e.why,
		e.results.summary(), where)
	return e
}

// why is by which alert a service is traced.
func (j *traceJob) why() string { return "alert " + j.alert + ": trace" }

// noTrace is the end of a trace that could not begin.
func (a *Agent) noTrace(j *traceJob, err error) traceEnd {
	why := "it could not begin: " + err.Error()
	a.audit.write(auditEntry{What: auditFullEnd, Service: j.service, Why: why})
	a.log.Printf("alert %s: %q is not traced: %v", j.alert, j.service, err)
	return traceEnd{why: why, failed: true}
}

// audited is a recording as the audit log has it, below the service's folder.
func audited(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Join(tracesFolder, filepath.Base(path))
}

func (t *fullTrace) start() error {
	a, how := t.agent, &t.job.how
	_, most := segmentBounds(a.config.Load())
	args := []string{
		"record", "--output", t.path, "--max-size", fmt.Sprint(most), "--duration", how.For.String(),
		"--max-overhead", how.MaxOverhead, "--memory", fullMemory, "--follow=false", "--at-exit", "off", "--hold=false",
	}
	if how.Leaks {
		args = append(args, "--leaks")
	}
	said := &lineLog{to: a.log, prefix: "trace of " + t.job.service + ": "}
	t.cmd = tracerCommand(args, a.watches.folder().cacheOf(), said)
	var err error
	if t.orders, err = t.cmd.StdinPipe(); err == nil {
		t.lines, err = t.cmd.StdoutPipe()
	}
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the trace: %w", err)
	}
	return nil
}

// order has the processes traced. Each is known by its start, too: another one that has had its ID since is not meant.
func (t *fullTrace) order() {
	var lines []byte
	for _, m := range t.job.processes {
		line, err := json.Marshal(Order{m.PID, m.StartTime})
		if err != nil {
			continue // it has nothing that can't be JSON
		}
		lines = append(append(lines, line...), '\n')
		t.traced[m.Identity] = m
		t.agent.audit.write(auditEntry{
			What: auditTrace, Service: t.job.service, Why: t.job.why(), PID: m.PID, Program: m.program,
		})
	}
	_, _ = t.orders.Write(append(lines, '\n')) // it may have ended, which is noticed
	if t.job.left > 0 {
		t.agent.log.Printf("alert %s: %d processes of %q are traced, and %d with less memory are not", t.job.alert,
			len(t.job.processes), t.job.service, t.job.left)
	}
}

// await takes what the trace tells, until it has ended.
func (t *fullTrace) await(ctx context.Context) (e traceEnd) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		t.read()
	}()
	late := time.NewTimer(t.job.how.For + checkPatience)
	defer late.Stop()
	tooLong, killed := false, false
	select {
	case <-told:
	case <-ctx.Done():
		killed = t.stop(told)
	case <-late.C:
		tooLong, killed = true, t.stop(told)
	}
	_ = t.orders.Close() // it may have ended
	err := t.cmd.Wait()
	if killed || t.cmd.ProcessState.ExitCode() == LateExit {
		err = errLate
	}
	if t.result != nil {
		e.results = t.findings()
	}
	e.why, e.failed = t.ended(ctx, tooLong, err)
	return e
}

// ended says why it ended, and whether that is a failure. err is that of its process.
func (t *fullTrace) ended(ctx context.Context, tooLong bool, err error) (why string, failed bool) {
	switch r := t.result; {
	case r != nil && r.RecordError != "":
		return "not all is recorded: " + brief(r.RecordError), true
	case tooLong:
		return fmt.Sprintf("it took %v longer than its time", checkPatience), true
	case r != nil && r.Early && ctx.Err() != nil: // else it was over by then
		return "the agent ended", false
	case r == nil && errors.Is(err, errLate):
		return err.Error(), true
	case r == nil && ctx.Err() != nil:
		return "the agent ended before there was a result", true
	case r == nil && len(t.traced) == 0 && t.refused != "":
		return "none of its processes can be traced: " + t.refused, true
	case r == nil:
		return fmt.Sprintf("it failed, and the agent's log has its own words: %v", firstOf(t.broken, err)), true
	case r.Early:
		return "a signal ended it", true
	case r.Found.blind():
		return fmt.Sprintf("for %.0f of %.0f seconds none of its allocations was seen, to keep within max_overhead %s: a larger one shows more",
			r.Found.unseen(), r.Found.seconds(), t.job.how.MaxOverhead), true
	case r.TimeOver:
		return "its time was over", false
	}
	return "its processes have ended", false
}

// stop has it end in good order, or else kills it.
func (t *fullTrace) stop(told <-chan struct{}) (killed bool) {
	_ = t.orders.Close() // it may have ended
	late := time.AfterFunc(tracerPatience, func() { _ = t.cmd.Process.Kill() })
	<-told
	return !late.Stop()
}

// read takes lines until there are no more.
func (t *fullTrace) read() {
	lines := bufio.NewScanner(t.lines)
	lines.Buffer(nil, maxTraceFeed)
	for lines.Scan() {
		var f TraceFeed
		if t.broken = json.Unmarshal(lines.Bytes(), &f); t.broken != nil {
			_ = t.cmd.Process.Kill()
			return
		}
		for _, r := range f.Refused {
			t.refuse(r)
		}
		if f.Ended != nil {
			t.result = f.Ended
		}
	}
	if t.broken = lines.Err(); t.broken != nil {
		_ = t.cmd.Process.Kill()
	}
}

// refuse notes that a process could not be traced.
func (t *fullTrace) refuse(r Refusal) {
	for id, m := range t.traced {
		if id.PID != r.PID {
			continue
		}
		delete(t.traced, id)
		why := brief(r.Why)
		t.refused = why
		t.agent.audit.write(auditEntry{
			What: auditRefused, Service: t.job.service, Why: why, PID: id.PID, Program: m.program,
		})
		t.agent.log.Printf("trace of %s: process %d is left out: %s", t.job.service, id.PID, why)
	}
}

// maxBrief bounds what a trace says in the agent's log, bytes. Names in it may be of a hostile program's making.
const maxBrief = 300

// brief is the first line of a text, as far as it may be shown.
func brief(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text = marked(strings.ToValidUTF8(text, "?"))
	if len(text) > maxBrief {
		text = strings.ToValidUTF8(text[:maxBrief], "") + "…"
	}
	return text
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("it told nothing")
}

// findings are those of the result, as they may be shown.
func (t *fullTrace) findings() *Findings {
	f := t.result.Found
	f.Untraced, f.Refused = t.job.left, len(t.job.processes)-len(t.traced)
	f.Processes = t.job.left + len(t.job.processes)
	f.Leaks = f.Leaks[:min(len(f.Leaks), maxKinds)]
	for i := range f.Leaks {
		f.Leaks[i].Kind = brief(f.Leaks[i].Kind)
	}
	if f.Top != nil {
		f.Top.Function, f.Top.File, f.Top.Kind = brief(f.Top.Function), brief(f.Top.File), brief(f.Top.Kind)
	}
	return &f
}

// whole reports whether all allocations of all processes were seen and checked.
func (f *Findings) whole() bool {
	return f.unseen() == 0 && f.SampledSeconds == 0 && f.PressedSeconds == 0 && f.Lost == 0 &&
		(f.Shed == nil || f.Shed.Blocks == 0) && f.Untraced == 0 && f.Refused == 0 && f.Checked >= f.Processes
}

func (f *Findings) seconds() float64 { return f.FullSeconds + f.SampledSeconds + f.unseen() }

// unseen is for how long no allocation was seen.
func (f *Findings) unseen() float64 { return f.NoneSeconds + f.PausedSeconds }

// blind reports whether that was most of the time: the service allocates too fast for max_overhead.
func (f *Findings) blind() bool { return f.unseen() > f.seconds()/2 }

// maxKinds is more than there are kinds of leaks.
const maxKinds = 10

// summary is what was found, in words.
func (f *Findings) summary() string {
	if f == nil {
		return "it told nothing of what it found"
	}
	var parts []string
	for _, l := range f.Leaks {
		parts = append(parts, fmt.Sprintf("%s: %d bytes in %d blocks", l.Kind, l.Bytes, l.Blocks))
	}
	switch {
	case f.Checked == 0:
		parts = append(parts, "no process was checked for leaks")
	case len(parts) == 0 && !f.whole():
		parts = append(parts, "no leaks among what was seen")
	case len(parts) == 0:
		parts = append(parts, "no leaks")
	}
	if s := f.Top; s != nil {
		at := s.Function
		if s.File != "" {
			at = fmt.Sprintf("%s %s:%d", at, s.File, s.Line)
		}
		parts = append(parts, fmt.Sprintf("most by %s, %d bytes in %d blocks", at, s.Bytes, s.Blocks))
	}
	return strings.Join(append(parts, f.losses()...), "; ")
}

// losses are what was not seen or kept, in words.
func (f *Findings) losses() (parts []string) {
	traced := f.Processes - f.Untraced - f.Refused
	if traced < f.Processes {
		parts = append(parts, fmt.Sprintf("%d of its %d processes were traced", traced, f.Processes))
	}
	if f.Checked > 0 && f.Checked < traced {
		parts = append(parts, fmt.Sprintf("%d of %d that were traced were checked", f.Checked, traced))
	}
	if f.PressedSeconds > 0 {
		parts = append(parts, fmt.Sprintf("for %.1f seconds events came too fast, and a sample was taken",
			f.PressedSeconds))
	}
	if f.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%d events were lost", f.Lost))
	}
	if s := f.Shed; s != nil {
		parts = append(parts, fmt.Sprintf("to stay within its memory it has not kept %d stacks of %d allocations, "+
			"nor tracked %d blocks", s.Stacks, s.Allocations, s.Blocks))
	}
	if f.RecordingFull {
		parts = append(parts, "the recording has come to its largest size")
	}
	if f.Unrecorded > 0 {
		parts = append(parts, fmt.Sprintf("the recording lacks %d events", f.Unrecorded))
	}
	return parts
}
