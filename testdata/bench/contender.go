package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// depth is the number of the loop's own frames below malloc.
const depth = 20

// A contender is one way to trace the loop.
type contender struct {
	name    string
	program string
	// attach begins to trace a process and returns once all probes are in place.
	attach func(pid int) (tool, error)
	// wrap is the command that the program runs under, such as Valgrind.
	wrap []string
}

// A tool traces until stop.
type tool interface {
	stop() error
}

// contenders lists all that this machine has, and that the flags choose.
func (s *settings) contenders() []contender {
	memtrace := func(args ...string) func(int) (tool, error) {
		return func(pid int) (tool, error) { return startMemtrace(s.memtrace, pid, slices.Concat(args, s.more)) }
	}
	all := []contender{
		{name: "untraced", program: "churn", attach: noTool},
		{name: bystanderName, program: "churn", attach: s.traceAnother},
		{name: floorName, program: "churn", attach: attachFloor},
		{name: entriesName, program: "churn", attach: attachEntries},
		{name: fpName, program: "churn", attach: memtrace("--unwind", "fp")},
		{name: bareName, program: "churn", attach: memtrace("--unwind", "none")},
		{name: tablesName, program: "churn_nofp", attach: memtrace("--unwind", "dwarf")},
		{name: "memtrace, no frame pointers, sampled", program: "churn_nofp", attach: memtrace("--sample-bytes", sampleEvery)},
		{name: stackidName, program: "churn", attach: attachStackid},
		{name: "bpftrace, counting only", program: "churn", attach: startBpftrace},
		{name: "heaptrack", program: "churn", attach: noTool, wrap: preloadHeaptrack()},
		{name: "Valgrind memcheck", program: "churn", attach: noTool, wrap: []string{"valgrind", "-q", "--leak-check=no"}},
	}
	var chosen []contender
	for _, c := range all {
		if c.name != floorName && !s.only.MatchString(c.name) {
			continue
		}
		if missing(c) {
			fmt.Fprintf(os.Stderr, "bench: %s is not installed, so left out\n", c.name)
			continue
		}
		chosen = append(chosen, c)
	}
	return chosen
}

const (
	floorName   = "floor: empty probes"
	entriesName = "empty probes, entries only"
	fpName      = "memtrace"
	bareName    = "memtrace, no stacks"
	tablesName  = "memtrace, no frame pointers"
)

func missing(c contender) bool {
	name, _, _ := strings.Cut(c.name, ",")
	if len(c.wrap) > 0 {
		name = c.wrap[0]
	} else if name != "bpftrace" {
		return false
	}
	_, err := exec.LookPath(name)
	return err != nil
}

// preloadHeaptrack runs a program under heaptrack's recorder, as its script
// does, which lends the program no stdin.
func preloadHeaptrack() []string {
	found, err := filepath.Glob("/usr/lib/*/heaptrack/libheaptrack_preload.so*")
	if more, _ := filepath.Glob("/usr/lib/heaptrack/libheaptrack_preload.so*"); err == nil {
		found = append(found, more...)
	}
	if len(found) == 0 {
		return []string{"heaptrack's recorder"} // which is not to be found either
	}
	return []string{"env", "LD_PRELOAD=" + found[0], "DUMP_HEAPTRACK_OUTPUT=" + os.DevNull}
}

type nothing struct{}

func (nothing) stop() error { return nil }

func noTool(int) (tool, error) { return nothing{}, nil }

// measurement is one turn of one contender, in ns for a pair of malloc and free.
type measurement struct {
	cpu     float64 // of the program's own processor time, what the kernel does for it included
	elapsed float64 // by the clock, in each thread
}

// answer is what churn says of itself.
type answer struct {
	Total     struct{ Alloc, Free, Temporary uint64 }
	Threads   float64
	ElapsedNS float64 `json:"elapsed_ns"`
}

// measure gives a contender one turn.
func (s *settings) measure(c contender, shape loopShape) (m measurement, err error) {
	p, err := startLoop(c.wrap, filepath.Join(s.programs, c.program), shape)
	if err != nil {
		return m, err
	}
	defer p.kill()
	t, err := c.attach(p.pid)
	if err != nil {
		return m, err
	}
	a, cpu, err := p.run()
	if err := errors.Join(err, t.stop()); err != nil {
		return m, err
	}
	pairs := float64(a.Total.Alloc)
	return measurement{cpu: float64(cpu) / pairs, elapsed: a.ElapsedNS * a.Threads / pairs}, nil
}

// loop is churn, waiting to be told to go on.
type loop struct {
	cmd *exec.Cmd
	pid int // of churn itself, which may be a child of cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// loopShape says how the loop runs: until a time has gone by, or so many pairs in each thread.
type loopShape struct {
	depth, threads int
	span           time.Duration // whole seconds; 0: no limit
	pairs          int           // 0: no limit
	held           int           // blocks that each thread holds meanwhile
}

func (s loopShape) arguments() []string {
	seconds := int(s.span / time.Second)
	if s.span > 0 {
		seconds = max(1, seconds)
	}
	var out []string
	for _, n := range []int{s.depth, s.threads, seconds, s.pairs, s.held} {
		out = append(out, strconv.Itoa(n))
	}
	return out
}

func startLoop(wrap []string, program string, shape loopShape) (*loop, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	argv := append(append(slices.Clone(wrap), program, "attach"), shape.arguments()...)
	p := &loop{cmd: exec.Command(argv[0], argv[1:]...)}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the loop (make testprograms builds it): %w", err)
	}
	if err := p.ready(); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// ready waits until the loop says that it is; heaptrack talks before.
func (p *loop) ready() error {
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the loop has not started: %w", err)
		}
		if n, err := fmt.Sscanf(line, "ready %d", &p.pid); err == nil && n == 1 {
			return nil
		}
	}
}

// run lets the loop do its work and reads what it says of it. cpu is the
// processor time that it took, in ns.
func (p *loop) run() (a answer, cpu int64, err error) {
	before, err := cpuTime(p.pid)
	if err != nil {
		return a, 0, err
	}
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		return a, 0, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return a, 0, fmt.Errorf("read the loop's answer: %w", err)
	}
	after, err := cpuTime(p.pid)
	if err != nil {
		return a, 0, err
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		return a, 0, fmt.Errorf("parse the loop's answer: %w", err)
	}
	if a.Total.Alloc == 0 || a.Total.Alloc != a.Total.Free {
		return a, 0, fmt.Errorf("the loop says %d allocations, %d frees", a.Total.Alloc, a.Total.Free)
	}
	return a, after - before, nil
}

// cpuTime is the processor time of all threads of a process, in ns.
func cpuTime(pid int) (int64, error) {
	var ts unix.Timespec
	clock := int32(^pid)<<3 | 2 // clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return ts.Nano(), nil
}

// kill ends the loop and what it runs under: the latter ends with the former.
func (p *loop) kill() {
	_ = p.in.Close()
	if p.pid != 0 {
		_ = unix.Kill(p.pid, unix.SIGKILL)
	} else {
		_ = p.cmd.Process.Kill()
	}
	_ = p.cmd.Wait()
}

// bpftraceTool counts calls by the same probes: entry and return of malloc, entry of free.
type bpftraceTool struct{ cmd *exec.Cmd }

func startBpftrace(pid int) (tool, error) {
	libc, probed, err := entriesOf(pid, "malloc", "free")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("uprobe:%[1]s:malloc { @entry = count(); } uretprobe:%[1]s:malloc { @return = count(); } uprobe:%[1]s:free { @free = count(); }", libc)
	b := &bpftraceTool{exec.Command("bpftrace", "-p", strconv.Itoa(pid), "-e", text)}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(30 * time.Second); !patched(pid, probed); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = b.cmd.Process.Kill()
			return nil, errors.Join(errors.New("bpftrace has not attached within 30 s"), b.cmd.Wait())
		}
	}
	time.Sleep(500 * time.Millisecond) // the return probe leaves no trace in the code
	return b, nil
}

// stop ends bpftrace, which prints what it counted. Where it does not end, it is killed: that is an error.
func (b *bpftraceTool) stop() error {
	if err := b.cmd.Process.Signal(unix.SIGINT); err != nil {
		return err
	}
	patience := time.AfterFunc(30*time.Second, func() { _ = b.cmd.Process.Kill() })
	defer patience.Stop()
	return b.cmd.Wait()
}
