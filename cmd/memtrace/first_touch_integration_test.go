//go:build integration

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// touchedAnswer is what testdata/programs/first_touch.c says of itself: resident bytes by function.
type touchedAnswer struct {
	Child        int               `json:"child"`
	Touched      map[string]uint64 `json:"touched"`
	ChildTouched map[string]uint64 `json:"child_touched"`
}

func (c *child) touched(t *testing.T) (a touchedAnswer) {
	t.Helper()
	text, err := json.Marshal(c.answer)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil || len(a.Touched) == 0 {
		t.Fatalf("the program's answer says nothing of what it touched: %v", err)
	}
	return a
}

// within reports whether got is within 2 % of want.
func within2Percent(got, want uint64) bool { return 100*max(got, want) <= 102*min(got, want) }

// heldBy sums the live and the resident bytes of the sites that a function is in: in a static program, what it calls
// of the C library is the program's own code, too.
func heldBy(r *report.Report, pid int, function string) (live, resident uint64) {
	for _, s := range r.Sites {
		if s.PID == pid && slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return f.Function == function }) {
			live += s.LiveBytes
			resident += s.ResidentBytes
		}
	}
	return live, resident
}

// checkTouched compares the sites of a process with what it says of itself.
func checkTouched(t *testing.T, r *report.Report, pid int, want map[string]uint64) {
	t.Helper()
	for function, bytes := range want {
		if live, resident := heldBy(r, pid, function); !within2Percent(live, bytes) || !within2Percent(resident, bytes) {
			t.Errorf("process %d: %s touched %d live and %d resident bytes, want %d", pid, function, live, resident, bytes)
		}
	}
}

// checkSums checks that sites, what was there before and what is unexplained are the process's RSS, as its parts are.
func checkSums(t *testing.T, r *report.Report) {
	t.Helper()
	if r.Basis != report.FirstTouchBasis || r.Events.Lost != 0 {
		t.Errorf("basis %q, %d events lost", r.Basis, r.Events.Lost)
	}
	for _, p := range r.Processes {
		var resident uint64
		for _, s := range r.Sites {
			if s.Process == p.ID {
				resident += s.ResidentBytes
			}
		}
		f := p.FirstTouch
		if f == nil || resident != f.ExplainedBytes || int64(resident+f.BeforeBytes)+f.UnexplainedBytes != int64(p.Usage.RSS) {
			t.Errorf("process %d: sites hold %d resident bytes, of RSS %d: %+v", p.PID, resident, p.Usage.RSS, f)
			continue
		}
		if p.RSSBy.Sum() != p.Usage.RSS {
			t.Errorf("process %d: the parts of RSS add up to %d, it is %d", p.PID, p.RSSBy.Sum(), p.Usage.RSS)
		}
		if unexplained := max(f.UnexplainedBytes, -f.UnexplainedBytes); unexplained > int64(p.Usage.RSS/50) {
			t.Errorf("process %d: %d bytes of an RSS of %d are unexplained", p.PID, f.UnexplainedBytes, p.Usage.RSS)
		}
	}
}

// refusesTouch reports whether the kernel is too old for traces without probes. Then memtrace must say so.
func refusesTouch(t *testing.T) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	release := unix.ByteSliceToString(u.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("the kernel's release is %s: %v", release, err)
	}
	if major > 5 || major == 5 && minor >= 15 {
		return false
	}
	out, err := memtraceCommand(t, "run", "--probes", "none", "--", "true").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUnsupported || !strings.Contains(string(out), "(Linux 5.15) is not supported by this kernel") {
		t.Errorf("on Linux %s: %v: %s", release, err, out)
	}
	return true
}

// TestFirstTouch has memory grow in every way, and be given back and copied, without a probe in the program.
func TestFirstTouch(t *testing.T) {
	t.Parallel()
	if refusesTouch(t) {
		return
	}
	for _, name := range []string{"first_touch", "first_touch_static"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := program(t, name, "attach")
			tr := attach(t, c.cmd.Process.Pid, "--probes", "none", "--top", "0")
			if err := c.proceed(); err != nil {
				t.Fatal(err)
			}
			checkUnprobed(t, c.cmd.Process.Pid)
			r := tr.interrupt()
			want := c.touched(t)
			checkSums(t, &r)
			checkTouched(t, &r, c.cmd.Process.Pid, want.Touched)
			checkTouched(t, &r, want.Child, want.ChildTouched)
			if err := c.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkUnprobed checks that no code of a process was written to, as an uprobe does.
func checkUnprobed(t *testing.T, pid int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "[uprobes]") {
		t.Errorf("process %d has a probe", pid)
	}
	code := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 4 && strings.Contains(fields[0], "-"):
			code = fields[1] == "r-xp"
		case code && fields[0] == "Anonymous:" && fields[1] != "0":
			t.Errorf("process %d: code was written to: %s", pid, line)
		}
	}
}

// TestFirstTouchOfAStrippedProgram finds the same amounts where nothing has a name.
func TestFirstTouchOfAStrippedProgram(t *testing.T) {
	t.Parallel()
	if refusesTouch(t) {
		return
	}
	c := program(t, "first_touch_static_stripped", "attach")
	tr := attach(t, c.cmd.Process.Pid, "--probes", "none", "--top", "0", "--follow=false")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	checkSums(t, &r)
	for _, function := range slices.Sorted(maps.Keys(c.touched(t).Touched)) {
		bytes := c.touched(t).Touched[function]
		if !slices.ContainsFunc(r.Sites, func(s report.Site) bool { return within2Percent(s.ResidentBytes, bytes) }) && function != "grow_malloc" {
			t.Errorf("no site has touched what %s has: %d bytes", function, bytes)
		}
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// TestFirstTouchOfAGoProgram: its allocator cannot be probed.
func TestFirstTouchOfAGoProgram(t *testing.T) {
	t.Parallel()
	if refusesTouch(t) {
		return
	}
	c, err := startCommand(t, exec.Command(testProgram("bare")))
	if err != nil {
		t.Fatal(err)
	}
	tr := attach(t, c.cmd.Process.Pid, "--probes", "none", "--top", "0")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	checkSums(t, &r)
	var got uint64
	for _, s := range r.Sites {
		if slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return f.Function == "main.grow" }) {
			got += s.ResidentBytes
		}
	}
	// Of its 64 MiB, some may have come to lie in a huge page that was there before: the program says what is new.
	want, ok := c.answer["rss_growth"].(float64)
	if !ok || want < 48<<20 || !within2Percent(got, uint64(want)) {
		t.Errorf("main.grow has touched %d bytes, and the program says that it has grown by %v", got, c.answer["rss_growth"])
	}
}

// TestFirstTouchFindsGrowth: what keeps growing fails the job, a cache that fills and stops does not.
func TestFirstTouchFindsGrowth(t *testing.T) {
	t.Parallel()
	if refusesTouch(t) {
		return
	}
	cmd := memtraceCommand(t, "run", "--probes", "none", "--format", "json", "--fail-on", "growing", "--", "sh", "-c", `exec "$0" run 60 >/dev/null`, testProgram("first_touch"))
	out, code := finishLeaks(t, cmd)
	var r report.Report
	if err := json.Unmarshal(out, &r); err != nil || code != exitFound {
		t.Fatalf("exit code %d, want %d: %v: %.500s", code, exitFound, err, out)
	}
	var growing []string
	for _, l := range r.Leaks {
		i := slices.IndexFunc(r.Sites, func(s report.Site) bool { return s.ID == l.Site })
		growing = append(growing, l.Kind+" "+r.Sites[i].Function)
	}
	if want := []string{"growing leak_slowly"}; !slices.Equal(growing, want) {
		t.Errorf("candidates %q, want %q", growing, want)
	}
}

// TestFirstTouchPassesAJob: a program that grows at once and stops is no reason to fail, nor that it is a child.
func TestFirstTouchPassesAJob(t *testing.T) {
	t.Parallel()
	if refusesTouch(t) {
		return
	}
	cmd := memtraceCommand(t, "run", "--probes", "none", "--format", "json", "--fail-on", "growing", "--", "sh", "-c", `"$0" run >/dev/null; exec sleep 3`, testProgram("first_touch"))
	if out, code := finishLeaks(t, cmd); code != 0 {
		t.Errorf("exit code %d, want 0: %.500s", code, out)
	}
}

// TestFirstTouchKilled kills memtrace: the program runs on, and nothing of it was changed.
func TestFirstTouchKilled(t *testing.T) {
	t.Parallel()
	if refusesTouch(t) {
		return
	}
	c := program(t, "first_touch", "attach")
	tr := attach(t, c.cmd.Process.Pid, "--probes", "none")
	if err := tr.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tr.cmd.Wait()
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	checkUnprobed(t, c.cmd.Process.Pid)
	if err := c.end(); err != nil {
		t.Error(err)
	}
}
