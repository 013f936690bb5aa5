//go:build linux && !viewer

package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/machine"
)

// machineReader reads the figures of the whole machine.
type machineReader struct {
	r       *machine.Reader
	meminfo procfs.Counters
}

func openMachine(proc, sys string) (*machineReader, error) {
	r, err := machine.Open(proc, sys)
	if err != nil {
		return nil, err
	}
	return &machineReader{r: r}, nil
}

func (m *machineReader) close() error { return m.r.Close() }

// userHZ is USER_HZ, the unit of start times in /proc/PID/stat, which Linux
// has at 100 for user space on all architectures that Go runs on.
const userHZ = 100

// describe reads what the machine is, and its figures at the beginning.
func (m *machineReader) describe(to *Machine, proc string) (err error) {
	to.PageSize, to.ClockTicks, to.CPUs = uint64(os.Getpagesize()), userHZ, runtime.NumCPU()
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		to.Hostname = unix.ByteSliceToString(u.Nodename[:])
		to.Kernel = unix.ByteSliceToString(u.Release[:])
		to.Arch = unix.ByteSliceToString(u.Machine[:])
	}
	id, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return err
	}
	to.BootID = strings.TrimSpace(string(id))
	counts, err := machine.DetectMapCounts(filepath.Dir(filepath.Clean(proc)))
	if err != nil {
		return err
	}
	to.Averaged = counts.Estimated()
	if to.Before, err = m.figures(); err != nil {
		return err
	}
	to.Pressure, err = m.pressure()
	return err
}

// after reads the figures at the end.
func (m *machineReader) after(to *Machine) (err error) {
	to.After, err = m.figures()
	return err
}

func (m *machineReader) figures() ([]Figure, error) {
	if err := m.r.Meminfo(&m.meminfo); err != nil {
		return nil, err
	}
	out := make([]Figure, m.meminfo.Len())
	for i := range out {
		out[i].Name, out[i].Value = m.meminfo.At(i)
	}
	return out, nil
}

// pressure is empty on a kernel without.
func (m *machineReader) pressure() ([]Figure, error) {
	p, err := m.r.Pressure()
	if errors.Is(err, procfs.ErrNotSupported) || errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Figure
	add := func(word string, s procfs.Stall) {
		out = append(out, Figure{word + ".avg10", hundredths(s.Avg10)}, Figure{word + ".avg60", hundredths(s.Avg60)},
			Figure{word + ".avg300", hundredths(s.Avg300)}, Figure{word + ".total", uint64(s.Total.Microseconds())})
	}
	add("some", p.Some)
	add("full", p.Full)
	return out, nil
}

func hundredths(percent float64) uint64 { return uint64(percent*100 + 0.5) }
