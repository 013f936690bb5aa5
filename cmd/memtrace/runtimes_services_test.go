//go:build integration && services

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// heldProgram keeps 64 MiB of Java objects, has loaded many classes, and waits.
const heldProgram = `
import java.util.*;
public class Held {
    static List<byte[]> kept = new ArrayList<>();
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 64; i++) kept.add(new byte[1 << 20]);
        java.util.regex.Pattern.compile("a*").matcher("aaa").matches();
        System.gc();
        System.out.println("ready");
        System.in.read();
    }
}
`

// javaProgram compiles a program and returns the command that runs it.
func javaProgram(t *testing.T, class, source string, options ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, class+".java")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(need(t, "javac"), "-d", dir, file).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, text)
	}
	return exec.Command(need(t, "java"), append(options, "-cp", dir, class)...)
}

// spawnJava starts a JVM. What it leaves in /tmp where it is killed is removed after that.
func spawnJava(t *testing.T, cmd *exec.Cmd) *spawned {
	t.Helper()
	pid := 0
	t.Cleanup(func() {
		for _, name := range []string{"/tmp/.java_pid%d", "/tmp/perf-%d.map"} {
			_ = os.Remove(fmt.Sprintf(name, pid))
		}
	})
	java := spawn(t, cmd)
	pid = java.pid()
	return java
}

// askJVM is what jcmd says.
func askJVM(t *testing.T, pid int, command ...string) string {
	t.Helper()
	text, err := exec.Command(need(t, "jcmd"), append([]string{strconv.Itoa(pid)}, command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("jcmd %v: %v\n%s", command, err, text)
	}
	return string(text)
}

// committed are the bytes that the JVM says it has mapped of each of its kinds, by Native Memory Tracking.
func committed(t *testing.T, text string) map[string]uint64 {
	t.Helper()
	out := make(map[string]uint64)
	kind := ""
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^-\s+(.*) \(reserved=`).FindStringSubmatch(line); m != nil {
			kind = m[1]
		}
		if m := regexp.MustCompile(`\(mmap: reserved=\d+KB, committed=(\d+)KB\)`).FindStringSubmatch(line); m != nil && kind != "" {
			n, err := strconv.ParseUint(m[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			out[kind] = n << 10
		}
	}
	return out
}

func partOf(r *report.Runtime, name string) report.RuntimePart {
	for _, p := range r.Parts {
		if p.Name == name {
			return p
		}
	}
	return report.RuntimePart{}
}

// checkAddsUp requires that a runtime's parts and the rest are what rss_by has them in.
func checkAddsUp(t *testing.T, p *report.Process) {
	t.Helper()
	sum := p.Runtime.RestBytes
	for _, part := range p.Runtime.Parts {
		if sum += part.ResidentBytes; part.ResidentBytes > part.MappedBytes {
			t.Errorf("%s: %d bytes are resident of %d", part.Name, part.ResidentBytes, part.MappedBytes)
		}
	}
	if sum != p.RSSBy.AnonMmap || p.RSSBy.Sum() != p.Usage.RSS {
		t.Errorf("the parts come to %d of %d other anonymous, all to %d of RSS %d", sum, p.RSSBy.AnonMmap, p.RSSBy.Sum(), p.Usage.RSS)
	}
}

// What the JVM has mapped for its heap, its code and its classes is what it counts itself, to the byte, whichever its collector, whether
// it is attached to or run.
func TestJVMHoldsWhatItSays(t *testing.T) {
	for _, collector := range []string{"G1", "Serial", "Parallel"} {
		t.Run(collector, func(t *testing.T) {
			t.Parallel()
			java := spawnJava(t, javaProgram(t, "Held", heldProgram, "-XX:+Use"+collector+"GC", "-Xmx256m", "-Xshare:off", "-XX:NativeMemoryTracking=summary"))
			java.lineWith("ready")
			m := startTracing(t, []int{java.pid()}, "-d", "600s")
			var before, after string
			var p *report.Process
			eventually(t, "the JVM stays as it is while it is read", func() bool {
				before = askJVM(t, java.pid(), "VM.native_memory", "summary")
				p = processOf(t, m.reportAfter(), java.pid())
				after = askJVM(t, java.pid(), "VM.native_memory", "summary")
				return readNow(p) && mapsEqual(committed(t, before), committed(t, after))
			})
			m.interrupt()
			says := committed(t, after)
			for part, want := range map[string]uint64{
				"Java heap": says["Java Heap"], "code cache": says["Code"], "metaspace": says["Class"] + says["Metaspace"],
			} {
				if got := partOf(p.Runtime, part).MappedBytes; got != want || want == 0 {
					t.Errorf("%s: %d bytes mapped, and the JVM says %d", part, got, want)
				}
			}
			if got := partOf(p.Runtime, "Java heap").ResidentBytes; got < 64<<20 {
				t.Errorf("%d bytes of the Java heap are resident, and 64 MiB are in use", got)
			}
			if cards := partOf(p.Runtime, "card table").MappedBytes; cards == 0 || cards > says["GC"] {
				t.Errorf("the card table has %d bytes, and all of the collector's %d", cards, says["GC"])
			}
			if p.Runtime.Name != "java" || !strings.HasPrefix(askJVM(t, java.pid(), "VM.version"), fmt.Sprint(java.pid())) ||
				!strings.Contains(askJVM(t, java.pid(), "VM.version"), p.Runtime.Version) {
				t.Errorf("%+v", p.Runtime)
			}
			checkAddsUp(t, p)
		})
	}
}

// readNow reports whether a Report has a runtime's parts as they are: on a busy machine they may be those of an
// earlier one.
func readNow(p *report.Process) bool { return p.Runtime != nil && p.Runtime.Problem == "" }

func mapsEqual(x, y map[string]uint64) bool { return fmt.Sprint(x) == fmt.Sprint(y) }

// A JVM that memtrace has run shows the same: its parts are seen although its mappings were seen being made, and a recording has them.
func TestJVMThatIsRun(t *testing.T) {
	t.Parallel()
	cmd := javaProgram(t, "Held", heldProgram, "-Xmx256m")
	file := filepath.Join(t.TempDir(), "java.memtrace")
	run := spawn(t, memtraceCommand(t, append([]string{"run", "-i", "300ms", "-o", file, "--report", file + ".txt", "--"}, cmd.Args...)...))
	run.lineWith("ready")
	eventually(t, "a reading is in the recording", func() bool {
		text, err := memtraceCommand(t, "report", file, "--format", "json").Output()
		if err != nil {
			return false
		}
		r := parseReport(t, string(text))
		if len(r.Processes) == 0 || r.Processes[0].Runtime == nil || partOf(r.Processes[0].Runtime, "Java heap").ResidentBytes < 64<<20 {
			return false
		}
		checkAddsUp(t, &r.Processes[0])
		return true
	})
	run.say("")
	<-run.exited
}

// nodeHeld keeps JavaScript objects, and answers each line with what V8 says that its heap has mapped.
const nodeHeld = `
const kept = [];
for (let i = 0; i < 300000; i++) kept.push({n: i, of: [i]});
const say = () => console.log(JSON.stringify({total: process.memoryUsage().heapTotal, spaces: require('v8').getHeapSpaceStatistics()}));
console.log("ready");
process.stdin.on('data', say);
`

// What V8 has mapped for its heap is what it says: beside that, each page of code has two pages of guards that can't be accessed, and what
// V8 shares between its heaps, which are read-only, counts as no heap's.
func TestNodeHoldsWhatItSays(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "held.js")
	if err := os.WriteFile(script, []byte(nodeHeld), 0o644); err != nil {
		t.Fatal(err)
	}
	node := spawn(t, exec.Command(need(t, "node"), script))
	node.lineWith("ready")
	m := startTracing(t, []int{node.pid()}, "-d", "600s")
	ask := func() (total uint64) {
		node.say("")
		var said struct{ Total uint64 }
		if err := json.Unmarshal([]byte(node.lineWith("total")), &said); err != nil {
			t.Fatal(err)
		}
		return said.Total
	}
	const readOnlyAndGuards = 256 << 10
	var total uint64
	var p *report.Process
	eventually(t, "V8 stays as it is while it is read", func() bool {
		total = ask()
		p = processOf(t, m.reportAfter(), node.pid())
		return readNow(p) && total == ask()
	})
	m.interrupt()
	heap, code := partOf(p.Runtime, "V8 heap"), partOf(p.Runtime, "V8 code")
	if got := heap.MappedBytes + code.MappedBytes; got+readOnlyAndGuards < total || got > total+readOnlyAndGuards || code.MappedBytes == 0 {
		t.Errorf("%d bytes mapped, of which %d for code, and V8 says %d", got, code.MappedBytes, total)
	}
	if heap.ResidentBytes < total/3 {
		t.Errorf("%d bytes of V8's heap are resident, of %d", heap.ResidentBytes, total)
	}
	checkAddsUp(t, p)
}

// withheldProgram maps Node's program and has memory that looks as if V8 had it, whose pages come by userfaultfd(2):
// never.
const withheldProgram = `
import ctypes, fcntl, mmap, struct, sys
node = open(sys.argv[1], "rb")
m = mmap.mmap(node.fileno(), 0, prot=mmap.PROT_READ)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
size = 4 << 20
at = libc.mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, 0)
fd = libc.syscall(int(sys.argv[2]), 0)
if fd < 0: sys.exit("userfaultfd: errno %d" % ctypes.get_errno())
fcntl.ioctl(fd, 0xc018aa3f, struct.pack("QQQ", 0xaa, 0, 0))
fcntl.ioctl(fd, 0xc020aa00, struct.pack("QQQQ", at, size, 1, 0))
print("ready", flush=True)
sys.stdin.readline()
print("end")
`

// A process whose memory does not come when it is read holds up neither the trace nor its end, and the Report says
// what is missing.
func TestMemoryThatDoesNotCome(t *testing.T) {
	t.Parallel()
	node, err := filepath.EvalSymlinks(need(t, "node"))
	if err != nil {
		t.Fatal(err)
	}
	call := strconv.Itoa(unix.SYS_USERFAULTFD)
	python := spawn(t, exec.Command("/usr/bin/python3", "-c", withheldProgram, node, call))
	python.lineWith("ready")
	m := startTracing(t, []int{python.pid()}, "-d", "600s")
	for range 3 {
		m.report()
	}
	r := m.interrupt()
	runtime := r.Processes[0].Runtime
	if runtime == nil || !strings.Contains(runtime.Problem, "could not be read in time") {
		t.Errorf("its runtime is %+v", runtime)
	}
	python.say("")
	python.lineWith("end")
	python.end()
}
