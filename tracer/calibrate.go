package tracer

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/probe"
)

// Costs are what a hit of a probe takes of the target's time, in ns.
type Costs struct {
	Entry  float64 // a call that is seen at its entry alone, such as free
	Return float64 // one that is seen at its return, too; what is recorded then comes on top
	Exit   float64 // a return instruction that is probed itself: on amd64 the kernel steps it
}

// See calibrate_*.s: calls a spot n times, and where the spots are.
func calibrationLoop(n, spot uint64)
func calibrationSpots() (entry, both, exit uint64)

// calibrationEnv has a process serve as the child of Calibrate.
const calibrationEnv = "MEMTRACE_CALIBRATE"

// What the child is asked for.
const (
	askEntry = 'e'
	askBoth  = 'b'
	askExit  = 'x'
)

const (
	calibrationCalls = 500 // of one turn: some 1 ms
	calibrationTurns = 7
	// calibrationLimit is the processor time, in s, after which the child has gone astray. It is none of the wall's: on
	// a busy machine, as beside a service that an alert fires for, it may wait for seconds until its turn.
	calibrationLimit = 10
)

// ServeCalibration makes this process the child of Calibrate, if it was started
// as that, and then does not return. Call it first thing in main.
func ServeCalibration() {
	if os.Getenv(calibrationEnv) == "" {
		return
	}
	runtime.LockOSThread()
	// The kernel kills it then, whatever it does.
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: calibrationLimit, Max: calibrationLimit}) // it may lower its own
	entry, both, exit := calibrationSpots()
	spots := map[byte]uint64{askEntry: entry, askBoth: both, askExit: exit}
	var turn [1]byte
	var took [8]byte
	for {
		if _, err := io.ReadFull(os.Stdin, turn[:]); err != nil {
			os.Exit(0)
		}
		began := threadTime()
		calibrationLoop(calibrationCalls, spots[turn[0]])
		binary.NativeEndian.PutUint64(took[:], threadTime()-began)
		if _, err := os.Stdout.Write(took[:]); err != nil {
			os.Exit(1)
		}
	}
}

// threadTime is the processor time of the calling thread, in ns: others may
// want the processor, too.
func threadTime() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic("read CLOCK_THREAD_CPUTIME_ID: " + err.Error()) // it always exists
	}
	return uint64(ts.Nano())
}

// Calibrate measures what hits cost on this machine, by this tracer's mechanism
// and programs, in a child of its own; no target is touched. It must come
// before the first Attach. docs/overhead.md says how long it takes.
func (t *Tracer) Calibrate() (Costs, error) {
	if !t.config.Sampling {
		return Costs{}, errors.New("calibrate the probes: the tracer was made to record every block")
	}
	c, err := startCalibration()
	if err != nil {
		return Costs{}, fmt.Errorf("calibrate the probes: %w", err)
	}
	defer c.close()
	costs, err := t.calibrate(c)
	if err != nil {
		err = fmt.Errorf("calibrate the probes: %w", err)
	}
	return costs, errors.Join(err, t.SetInterval(t.config.Interval))
}

// calibrate takes turns with no probe, with one whose return is left out where
// the mechanism can, with one at both ends, and with one at a return instruction. Nothing is recorded: the calls
// ask for no bytes, at the largest interval. All probes come at once, as the
// kernel takes most of the time to attach them.
func (t *Tracer) calibrate(c *calibration) (costs Costs, err error) {
	if err := t.SetInterval(math.MaxUint32); err != nil {
		return costs, err
	}
	bare, err := c.median(askEntry)
	if err != nil {
		return costs, err
	}
	object := c.object
	object.Probes = []probe.Probe{
		{Name: "calibrationEntry", Offset: c.entry, Shape: probe.Free, Args: firstArguments},
		{Name: "calibrationReturn", Offset: c.both, Shape: probe.Realloc, Args: firstArguments},
		{Name: "calibrationExit", Offset: c.exit, Shape: probe.Free, Args: firstArguments}, // any program: most of it is the instruction
	}
	a, err := t.attach(c.cmd.Process.Pid, []probe.Object{object})
	if err != nil {
		return costs, err
	}
	defer t.closing.take(a) // nobody needs to wait for the kernel to remove it
	free, err := c.median(askEntry)
	if err != nil {
		return costs, err
	}
	both, err := c.median(askBoth)
	if err != nil {
		return costs, err
	}
	exit, err := c.median(askExit)
	costs = Costs{Entry: max(free-bare, 0), Return: max(both-bare, free-bare, 0), Exit: max(exit-bare, 0)}
	return costs, err
}

// firstArguments has every argument in the first register, which holds 0.
var firstArguments = [3]probe.Reg{probe.RegRDI, probe.RegRDI, probe.RegRDI} // arm64: x0

// calibration is the child.
type calibration struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	object probe.Object
	entry  uint64 // offsets in the file
	both   uint64
	exit   uint64
}

func startCalibration() (*calibration, error) {
	c := &calibration{cmd: exec.Command("/proc/self/exe")}
	// A signal of Go's own, that finds a return address replaced, would be lost on it.
	c.cmd.Env = append(os.Environ(), calibrationEnv+"=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off", "GOMAXPROCS=1")
	var err error
	if c.object.File, err = os.Open("/proc/self/exe"); err != nil {
		return nil, err
	}
	entry, both, exit := calibrationSpots()
	for _, spot := range []struct {
		at     uint64
		offset *uint64
	}{{entry, &c.entry}, {both, &c.both}, {exit, &c.exit}} {
		if *spot.offset, err = fileOffset(c.object.File, spot.at); err != nil {
			c.close()
			return nil, err
		}
	}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		c.close()
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("start a child: %w", err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, nil
}

// fileOffset is where the code at an address of this program lies in its file.
func fileOffset(exe *os.File, addr uint64) (uint64, error) {
	f, err := elf.NewFile(exe)
	if err != nil {
		return 0, fmt.Errorf("read memtrace's own file: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, nil
		}
	}
	return 0, fmt.Errorf("memtrace's own file has no code at %#x", addr)
}

// median takes turns of what is asked for and returns ns a call.
func (c *calibration) median(ask byte) (float64, error) {
	var turns []float64
	var took [8]byte
	for range calibrationTurns {
		if _, err := c.in.Write([]byte{ask}); err != nil {
			return 0, fmt.Errorf("ask the child for a turn: %w", err)
		}
		if _, err := io.ReadFull(c.out, took[:]); err != nil {
			return 0, fmt.Errorf("read what a turn took: %w", err)
		}
		turns = append(turns, float64(binary.NativeEndian.Uint64(took[:]))/calibrationCalls)
	}
	slices.Sort(turns)
	return turns[len(turns)/2], nil
}

func (c *calibration) close() {
	if c.in != nil {
		_ = c.in.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
	_ = c.object.Close()
}
