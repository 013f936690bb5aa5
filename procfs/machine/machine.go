package machine

import (
	"errors"
	"os"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/whole"
)

var pageSize = uint64(os.Getpagesize())

// Reader reads the machine's files, again and again, into buffers of its own.
// It is for one goroutine at a time.
type Reader struct {
	proc, sys *whole.Reader

	meminfo, vmstat procfs.Counters
	zones           []NodeStats
}

// Open returns a Reader of the proc and sys file systems mounted at these
// directories, "/proc" and "/sys" as a rule. The caller closes it.
func Open(proc, sys string) (*Reader, error) {
	p, err := whole.Open(proc)
	if err != nil {
		return nil, err
	}
	s, err := whole.Open(sys)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return &Reader{proc: p, sys: s}, nil
}

// Close lets go of the two directories.
func (r *Reader) Close() error { return errors.Join(r.proc.Close(), r.sys.Close()) }

// Meminfo reads /proc/meminfo into c: sizes in bytes, HugePages_* in pages
// (Documentation/filesystems/proc.rst, "meminfo").
func (r *Reader) Meminfo(c *procfs.Counters) error { return counters(r.proc, "meminfo", c) }

// Vmstat reads /proc/vmstat into c: nr_* in pages, the rest in events since boot.
func (r *Reader) Vmstat(c *procfs.Counters) error { return counters(r.proc, "vmstat", c) }

func counters(from *whole.Reader, name string, c *procfs.Counters) error {
	data, err := from.Read(name)
	if err != nil {
		return err
	}
	return from.Wrap(name, c.Parse(data))
}

// Pressure reads /proc/pressure/memory (Linux 4.20, CONFIG_PSI). The error is
// ErrNotSupported where the kernel has it not, or was booted without psi=1.
func (r *Reader) Pressure() (procfs.Pressure, error) {
	const name = "pressure/memory"
	data, err := r.proc.Read(name)
	if err != nil {
		return procfs.Pressure{}, err
	}
	p, err := procfs.ParsePressure(data)
	return p, r.proc.Wrap(name, err)
}
