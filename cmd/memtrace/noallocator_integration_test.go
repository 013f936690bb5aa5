//go:build integration

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// TestGoProgramOfAScript: a shell that is traced executes programs without an
// allocator that can be probed, in its own place or in that of a child's. They
// are traced on as such programs are, and said to be. Debian's sh makes a child by
// vfork, a subshell by fork.
func TestGoProgramOfAScript(t *testing.T) {
	t.Parallel()
	growing, err := filepath.Abs(testProgram("bare"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script string
		child        bool
	}{
		{"exec", `echo shell; read go; exec "$0"`, false},
		{"child", `echo shell; read go; "$0"; exit $?`, true},
		{"fork", `echo shell; read go; (exec "$0") <&0; exit $?`, true},
		{"twice", `echo shell; read go; exec sh -c 'exec "$0"' "$0"`, false},
	} {
		for _, hold := range []string{"--hold=true", "--hold=false"} {
			t.Run(c.name+" "+hold, func(t *testing.T) {
				t.Parallel()
				shell := spawn(t, exec.Command("sh", "-c", c.script, growing))
				shell.lineWith("shell")
				m := startTracing(t, []int{shell.pid()}, "-d", "600s", hold, "--top", "0")
				shell.say("go")
				shell.lineWith("ready")
				warnsOfGo(t, m)
				shell.say("grow")
				shell.lineWith(`"final":true`)
				r := m.interrupt()
				p := programOf(t, r, growing)
				if (p.PID != shell.pid()) != c.child {
					t.Errorf("%s is process %d, the shell is %d", growing, p.PID, shell.pid())
				}
				checkGrowth(t, p)
				if p.Heap.LiveBytes != 0 || len(r.Leaks) != 0 {
					t.Errorf("heap %+v, leaks %v", p.Heap, r.Leaks)
				}
				shell.say("end")
				shell.end()
			})
		}
	}
}

// warnsOfGo waits until a Report says what is not seen.
func warnsOfGo(t *testing.T, m *running) {
	t.Helper()
	eventually(t, "it is said that the program's allocations are not seen", func() bool {
		warnings := strings.Join(m.report().Warnings, "\n")
		return strings.Contains(warnings, "its allocations are not traced") && strings.Contains(warnings, "docs/languages.md")
	})
}

func programOf(t *testing.T, r *report.Report, exe string) *report.Process {
	t.Helper()
	for i := range r.Processes {
		if r.Processes[i].Exe == exe {
			return &r.Processes[i]
		}
	}
	t.Fatalf("no process runs %s", exe)
	return nil
}

// TestGoProgramAndBack: a traced process that executes a static program without symbols, and then one with an
// allocator, is traced in each as far as it can be. `busybox` is Debian's static one.
func TestGoProgramAndBack(t *testing.T) {
	t.Parallel()
	const script = `echo shell; read go; exec busybox sh -c 'echo bare; read go; exec "$0" attach' "$0"`
	program, err := filepath.Abs(testProgram("every_function"))
	if err != nil {
		t.Fatal(err)
	}
	shell := spawn(t, exec.Command("sh", "-c", script, program))
	shell.lineWith("shell")
	m := startTracing(t, []int{shell.pid()}, "-d", "600s", "--top", "0")
	shell.say("go")
	shell.lineWith("bare")
	var bare *report.Report
	eventually(t, "the process is said to be without an allocator", func() bool {
		bare = m.report()
		return bare.Processes[0].Unprobed && bare.Processes[0].Usage.RSS != 0
	})
	checkMappings(t, &bare.Processes[0])
	if !strings.Contains(strings.Join(bare.Warnings, "\n"), "a static program without symbols") {
		t.Errorf("warnings %q", bare.Warnings)
	}
	shell.say("go")
	shell.lineWith("ready")
	eventually(t, "the allocator of the last program is found", func() bool { return len(m.report().Processes[0].Allocators) > 0 })
	want := shell.proceed()
	r := m.interrupt()
	p := processOf(t, r, shell.pid())
	if p.Unprobed || p.Attached || len(p.Mappings) != 0 {
		t.Errorf("unprobed %v, attached %v, mappings %v", p.Unprobed, p.Attached, p.Mappings)
	}
	checkBytesOf(t, r, want)
	shell.end()
}

// TestAllocatorsAfterExec: a program with another C library than the one before is shown with its own alone.
func TestAllocatorsAfterExec(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(testProgram("every_function_musl"))
	if err != nil {
		t.Fatal(err)
	}
	shell := spawn(t, exec.Command("sh", "-c", `echo shell; read go; exec "$0" attach`, program))
	shell.lineWith("shell")
	m := startTracing(t, []int{shell.pid()}, "-d", "600s", "--top", "0")
	shell.say("go")
	shell.lineWith("ready")
	eventually(t, "the program's own allocator alone is shown", func() bool {
		via := processOf(t, m.report(), shell.pid()).Allocators
		return len(via) == 1 && strings.HasPrefix(via[0], "musl ")
	})
	want := shell.proceed()
	checkBytesOf(t, m.interrupt(), want)
	shell.end()
}
