package watch

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/procfs/collect"
	"github.com/memtrace/memtrace/procfs/machine"
)

// source reads each file once a check, however many conditions need it.
type source struct {
	opt     Options
	fs      procfs.FS
	machine *machine.Reader
	all     *collect.Collector
	now     time.Time

	meminfo     procfs.Counters
	haveMeminfo bool
	pressure    *procfs.Pressure
	pass        *collect.Pass
	walks       map[collect.Identity]*walk
	groups      *cgroup.Hierarchy // nil: not needed yet
	read        []*cgroup.Group   // in this check
}

func openSource(opt Options) (*source, error) {
	opt.Proc, opt.Sys = cmp.Or(opt.Proc, procfs.DefaultRoot), cmp.Or(opt.Sys, "/sys")
	opt.Cgroup = cmp.Or(opt.Cgroup, opt.Sys+"/fs/cgroup")
	s := &source{opt: opt, walks: make(map[collect.Identity]*walk)}
	var err error
	if s.fs, err = procfs.New(opt.Proc); err != nil {
		return nil, err
	}
	if s.machine, err = machine.Open(opt.Proc, opt.Sys); err != nil {
		return nil, err
	}
	if s.all, err = collect.Open(collect.Options{Root: opt.Proc}); err != nil {
		return nil, errors.Join(err, s.machine.Close())
	}
	return s, nil
}

func (s *source) close() error {
	err := errors.Join(s.machine.Close(), s.all.Close())
	if s.groups != nil {
		err = errors.Join(err, s.groups.Close())
	}
	return err
}

// begin begins a check: what was read before is read again when it is wanted.
func (s *source) begin(now time.Time) {
	s.now, s.haveMeminfo, s.pressure, s.pass, s.read = now, false, nil, nil, s.read[:0]
}

func (s *source) readMeminfo() error {
	if s.haveMeminfo {
		return nil
	}
	err := s.machine.Meminfo(&s.meminfo)
	s.haveMeminfo = err == nil
	return err
}

func (s *source) readPressure() (procfs.Pressure, error) {
	if s.pressure == nil {
		p, err := s.machine.Pressure()
		if err != nil {
			return p, err
		}
		s.pressure = &p
	}
	return *s.pressure, nil
}

// processes lists all processes; that takes no walk.
func (s *source) processes() ([]*collect.Process, error) {
	if s.pass == nil {
		pass, err := s.all.Collect(0)
		if err != nil {
			return nil, err
		}
		s.pass = pass
		s.forget()
	}
	return s.pass.Processes, nil
}

// walk is the last reading of a process's smaps_rollup.
type walk struct {
	memory procfs.Memory
	next   time.Time // when the stall budget allows another
}

// forget drops the readings of processes that have ended.
func (s *source) forget() {
	if len(s.walks) == 0 {
		return
	}
	alive := make(map[collect.Identity]bool, len(s.pass.Processes))
	for _, p := range s.pass.Processes {
		alive[p.Identity] = true
	}
	for id := range s.walks {
		if !alive[id] {
			delete(s.walks, id)
		}
	}
}

// memory reads a process's smaps_rollup, or returns what it was where the
// stall budget doesn't allow another walk yet.
func (s *source) memory(p *collect.Process) (procfs.Memory, error) {
	last := s.walks[p.Identity]
	if last != nil && s.now.Before(last.next) {
		return last.memory, nil
	}
	proc, err := s.fs.Process(p.PID)
	if err != nil {
		return procfs.Memory{}, err
	}
	defer func() { _ = proc.Close() }()
	st, err := proc.Stat()
	if err == nil && st.StartTime != p.StartTime {
		err = fmt.Errorf("process %d: %w", p.PID, procfs.ErrGone)
	}
	if err != nil {
		return procfs.Memory{}, err
	}
	began := time.Now()
	total, err := proc.SmapsRollup()
	if err != nil {
		return procfs.Memory{}, err
	}
	took := time.Since(began)
	s.walks[p.Identity] = &walk{total.Memory, s.now.Add(s.restAfter(took))}
	return total.Memory, nil
}

// restAfter is how long to leave a process alone after a walk, so that its
// walks take no more than the stall budget of each second.
func (s *source) restAfter(took time.Duration) time.Duration {
	if s.opt.StallBudget <= 0 {
		return 0
	}
	return time.Duration(float64(took) / float64(s.opt.StallBudget) * float64(time.Second))
}
