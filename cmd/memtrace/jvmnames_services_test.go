//go:build integration && services

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// buffersProgram allocates native memory through three functions, which the JVM compiles, and says how often it has.
const buffersProgram = `
import java.nio.ByteBuffer;
public class Buffers {
    static ByteBuffer[] kept = new ByteBuffer[1024];
    static int made = 0;
    static ByteBuffer innermost(int n) { made++; return ByteBuffer.allocateDirect(n); }
    static void middle(int i) { kept[i % kept.length] = innermost(10000); }
    static void outermost() { for (int i = 0; i < 300; i++) middle(i); }
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 200; i++) outermost();
        System.out.println("ready " + ProcessHandle.current().pid());
        while (System.in.available() == 0) { outermost(); Thread.sleep(5); }
        System.out.println("end");
    }
}
`

// jvmNamed is the site at which Buffers allocates most, by all of its functions in their order; nil where none is.
func jvmNamed(r *report.Report) *report.Site {
	for i := range r.Sites {
		if s := &r.Sites[i]; javaCalls(s, "Buffers.innermost(int)", "Buffers.middle(int)", "Buffers.outermost()") && s.AllocBytes > 1<<20 {
			return s
		}
	}
	return nil
}

// javaCalls reports whether functions follow each other in a stack, with others between them.
func javaCalls(s *report.Site, names ...string) bool {
	for _, f := range s.Stack {
		if len(names) > 0 && strings.HasSuffix(f.Function, " "+names[0]) {
			names = names[1:]
		}
	}
	return len(names) == 0
}

// compiledApart are options by which the JVM compiles the functions apart, and keeps their frames.
var compiledApart = []string{"-XX:+PreserveFramePointer", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Buffers.*"}

// A running JVM is asked for names, and goes on as before: it says nothing, and nothing of ours is left.
func TestJVMNamesItsCode(t *testing.T) {
	t.Parallel()
	java := spawnJava(t, javaProgram(t, "Buffers", buffersProgram, compiledApart...))
	java.lineWith("ready")
	m := startTracing(t, []int{java.pid()}, "--jvm-perfmap", "--top", "0", "-d", "600s")
	eventually(t, "the functions have names", func() bool { return jvmNamed(m.report()) != nil })
	r := m.interrupt()
	if s := jvmNamed(r); s == nil || !strings.HasSuffix(s.Function, " Buffers.innermost(int)") {
		t.Errorf("the last Report has %+v", s)
	}
	if left, _ := filepath.Glob(fmt.Sprintf("/tmp/.attach_pid%d", java.pid())); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	java.say("")
	if line, _ := java.line(); line != "end" {
		t.Errorf("it said %q", line)
	}
	java.end()
}

// A JVM that memtrace runs is asked as soon as it can be, so that the names are there after its end; so are they in the recording.
func TestJVMThatIsRunNamesItsCode(t *testing.T) {
	t.Parallel()
	cmd := javaProgram(t, "Buffers", buffersProgram, compiledApart...)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "java.memtrace"), filepath.Join(dir, "report.json")
	run := spawn(t, memtraceCommand(t, append([]string{"run", "--jvm-perfmap", "--top", "0", "-o", file, "--format", "json", "--report", out, "--"}, cmd.Args...)...))
	pid, err := strconv.Atoi(strings.TrimPrefix(run.lineWith("ready "), "ready "))
	if err != nil {
		t.Fatal(err)
	}
	names := fmt.Sprintf("/tmp/perf-%d.map", pid)
	t.Cleanup(func() { _ = os.Remove(names) })
	awaitNamesRead(t, names)
	run.say("")
	run.end()
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	r := parseReport(t, lines[len(lines)-1])
	if jvmNamed(r) == nil {
		t.Errorf("no names after its end; warnings %v", r.Warnings)
	}
	if text, err = memtraceCommand(t, "report", file, "--format", "json", "--top", "0").Output(); err != nil || jvmNamed(parseReport(t, string(text))) == nil {
		t.Errorf("no names in the recording: %v", err)
	}
}

// awaitNamesRead waits until memtrace has read a file of names that the JVM has begun to write after now: it is written
// piece by piece, and in a file of before the functions were compiled they are missing.
func awaitNamesRead(t *testing.T, file string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	eventually(t, "there are names of the JVM's", func() bool {
		_, err := unix.InotifyAddWatch(fd, file, unix.IN_OPEN|unix.IN_CLOSE)
		return err == nil
	})
	opened, written := false, false // since now
	eventually(t, "names are read that were written since", func() bool {
		var event [unix.SizeofInotifyEvent]byte // of a file, without a name
		n, _ := unix.Read(fd, event[:])
		if n < len(event) {
			return false
		}
		switch is := binary.NativeEndian.Uint32(event[4:]); {
		case is&unix.IN_OPEN != 0:
			opened = true
		case is&unix.IN_CLOSE_WRITE != 0 && opened:
			opened, written = false, true
		case is&unix.IN_CLOSE_NOWRITE != 0 && opened:
			opened = false
			return written
		}
		return false
	})
}

// A JVM that does not answer, or would write to another's file, is left alone, and the Report says why. Without the flag it says what would give names.
func TestJVMThatIsNotAsked(t *testing.T) {
	for name, c := range map[string]struct {
		options []string
		flags   []string
		prepare func(t *testing.T, pid int)
		want    string
	}{
		"attaching is off": {[]string{"-XX:+DisableAttachMechanism"}, []string{"--jvm-perfmap"}, nil, "-XX:+DisableAttachMechanism"},
		"no signals":       {[]string{"-Xrs"}, []string{"--jvm-perfmap"}, nil, "-XX:+ReduceSignalUsage"},
		"a link in its place": {nil, []string{"--jvm-perfmap"}, func(t *testing.T, pid int) {
			if err := os.Symlink(filepath.Join(t.TempDir(), "not", "there"), fmt.Sprintf("/tmp/perf-%d.map", pid)); err != nil {
				t.Fatal(err)
			}
		}, "remove it"},
		"without the flag": {nil, nil, nil, "--jvm-perfmap asks the JVM for them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			java := spawnJava(t, javaProgram(t, "Buffers", buffersProgram, append(c.options, compiledApart...)...))
			java.lineWith("ready")
			if c.prepare != nil {
				c.prepare(t, java.pid())
			}
			m := startTracing(t, []int{java.pid()}, append(c.flags, "-d", "600s")...)
			says := func(r *report.Report) bool {
				return strings.Contains(strings.Join(append(r.Warnings, r.Notes...), "\n"), c.want)
			}
			eventually(t, "there is something to say", func() bool {
				r := m.report()
				return says(r) || len(c.flags) == 0 && runsUnnamedCode(r) // notes are the last Report's
			})
			if r := m.interrupt(); !says(r) {
				t.Errorf("it says %q and %q, not %q", r.Warnings, r.Notes, c.want)
			}
			java.say("")
			if line, _ := java.line(); line != "end" {
				t.Errorf("it said %q: it was sent SIGQUIT", line)
			}
			java.end()
		})
	}
}

// runsUnnamedCode reports whether a Report shows that a process is a JVM, and has stacks through code without names.
func runsUnnamedCode(r *report.Report) bool {
	return r.Processes[0].Runtime != nil &&
		slices.ContainsFunc(r.Sites, func(s report.Site) bool { return slices.ContainsFunc(s.Stack, isUnnamedCode) })
}

// A program that has loaded the JVM's library and runs no JVM has no handler for the signal: it gets none.
func TestLibraryWithoutJVM(t *testing.T) {
	t.Parallel()
	java, err := filepath.EvalSymlinks(need(t, "java"))
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(filepath.Dir(java), "..", "lib", "server", "libjvm.so")
	python := spawn(t, exec.Command("/usr/bin/python3", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('ready', flush=True); sys.stdin.readline(); print('end')", lib))
	python.lineWith("ready")
	m := startTracing(t, []int{python.pid()}, "--jvm-perfmap", "-d", "600s")
	m.report()
	m.report()
	m.interrupt()
	python.say("")
	python.lineWith("end")
	python.end()
}

// mapsProgram maps a file as a library, says that it is ready, and waits.
const mapsProgram = `
import mmap, sys
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
print("ready", flush=True)
sys.stdin.readline()
print("end")
`

// What a process has in the place of the JVM's library may be anything. It is looked at a few times, and that it
// could not be read is said once.
func TestLibraryThatIsNoJVMs(t *testing.T) {
	t.Parallel()
	lib := filepath.Join(t.TempDir(), "libjvm.so")
	if err := os.WriteFile(lib, []byte(strings.Repeat("no library", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	python := spawn(t, exec.Command("/usr/bin/python3", "-c", mapsProgram, lib))
	python.lineWith("ready")
	m := startTracing(t, []int{python.pid()}, "--jvm-perfmap", "-d", "600s")
	told := func(r *report.Report) (n int) {
		for _, w := range r.Warnings {
			if strings.HasPrefix(w, "--jvm-perfmap: the JVM of process") {
				n++
			}
		}
		return n
	}
	eventually(t, "it is said that the library could not be read", func() bool { return told(m.report()) > 0 })
	if r := m.interrupt(); told(r) != 1 {
		t.Errorf("the warnings are %q", r.Warnings)
	}
	python.say("")
	python.lineWith("end")
	python.end()
}
