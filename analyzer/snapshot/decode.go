package snapshot

import (
	"fmt"
	"io"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// What a reader takes of each sort.
const (
	maxProcesses  = 4 << 20 // PID_MAX_LIMIT of the kernel
	maxComponents = 4 << 20
	maxUses       = 16 << 20 // over all processes
	maxStrings    = 4096     // arguments of a process, warnings, figures of a file
	maxText       = 64 << 10
	maxBytes      = 1 << 57 // a figure; the largest address space there is
	maxSum        = 1 << 62 // all figures of one sort together
)

// Read reads a file that Write wrote, whatever machine that was on. The errors
// are ErrNotSnapshot, ErrVersion, ErrCorrupt and r's own.
func Read(r io.Reader) (*Snapshot, error) {
	b, err := newBlockReader(r)
	if err != nil {
		return nil, err
	}
	defer b.close()
	d := &reading{s: &Snapshot{}}
	for {
		kind, raw, err := b.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = d.block(kind, raw)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d.s, nil
}

// reading is a snapshot that is being read.
type reading struct {
	s    *Snapshot
	uses int
	runs int  // of pages
	seen bool // the machine's block
}

// block takes one block; unknown kinds are a newer version's, and skipped.
func (d *reading) block(kind uint32, raw []byte) error {
	switch kind {
	case blockMachine:
		d.seen = true
		return eachField(raw, d.machine)
	case blockComponents:
		return eachField(raw, d.component)
	case blockProcesses:
		return eachField(raw, d.process)
	case blockChanges:
		return eachField(raw, d.changes)
	case blockFrames:
		return d.frames(raw)
	case blockPages:
		return eachField(raw, d.processPages)
	}
	return nil
}

func (d *reading) machine(f field) error {
	s, m := d.s, &d.s.Machine
	switch f.number {
	case 1:
		s.Begin = time.Unix(0, unzigzag(f.v))
	case 2:
		s.End = time.Unix(0, unzigzag(f.v))
	case 3:
		return setText(&m.Hostname, f)
	case 4:
		return setText(&m.Kernel, f)
	case 5:
		return setText(&m.Arch, f)
	case 6:
		return setText(&m.BootID, f)
	case 7:
		return setText(&m.Memtrace, f)
	case 8:
		m.PageSize = f.v
	case 9:
		m.ClockTicks = f.v
	case 10:
		return setInt(&m.CPUs, f)
	case 11:
		m.Averaged = f.v != 0
	case 12:
		return addFigure(&m.Before, f)
	case 13:
		return addFigure(&m.After, f)
	case 14:
		return addFigure(&m.Pressure, f)
	case 15:
		return setInt(&s.KernelThreads, f)
	case 16:
		return setInt(&s.Zombies, f)
	case 17:
		return addText(&s.Warnings, f)
	}
	return nil
}

func (d *reading) component(f field) error {
	if f.number != 1 {
		return nil
	}
	if len(d.s.Components) >= maxComponents {
		return tooMany("components")
	}
	var c Component
	err := eachField(f.data, func(f field) error {
		switch f.number {
		case 1:
			return setText(&c.Name, f)
		case 2:
			c.Kind = procfs.Kind(min(f.v, 255))
		case 3:
			c.Device = f.v
		case 4:
			c.Inode = f.v
		}
		return nil
	})
	d.s.Components = append(d.s.Components, c)
	return err
}

func (d *reading) process(f field) error {
	if f.number != 1 {
		return nil
	}
	if len(d.s.Processes) >= maxProcesses {
		return tooMany("processes")
	}
	p := Process{}
	err := eachField(f.data, func(f field) error {
		switch {
		case f.number == 21:
			return decodeUsage(&p.Usage, f.data)
		case f.number == 22:
			return d.use(&p, f.data)
		case f.number > 10:
			return processReading(&p, f)
		}
		return processIdentity(&p, f)
	})
	if err == nil && p.PID == 0 {
		err = fmt.Errorf("%w: a process without PID", ErrCorrupt)
	}
	d.s.Processes = append(d.s.Processes, p)
	return err
}

// processIdentity takes the fields that say what the process is.
func processIdentity(p *Process, f field) error {
	switch f.number {
	case 1:
		return setInt(&p.PID, f)
	case 2:
		p.StartTime = f.v
	case 3:
		return setInt(&p.PPID, f)
	case 4:
		p.UID = uint32(f.v)
	case 5:
		return setText(&p.User, f)
	case 6:
		return setText(&p.Comm, f)
	case 7:
		return addText(&p.Cmdline, f)
	case 8:
		return setText(&p.Cgroup, f)
	case 9:
		p.State = byte(f.v)
	case 10:
		p.Threads = f.v
	}
	return nil
}

// processReading takes the fields that say how its memory was read.
func processReading(p *Process, f field) error {
	switch f.number {
	case 11:
		p.Access = access(f.v)
	case 12:
		return setText(&p.Why, f)
	case 13:
		p.CmdlineAccess = access(f.v)
	case 14:
		p.CgroupAccess = access(f.v)
	case 15:
		return setBytes(&p.Resident, f)
	case 16:
		return setBytes(&p.ResidentEnd, f)
	case 17:
		p.HaveEnd = f.v != 0
	case 18:
		return setDuration(&p.ReadAt, f)
	case 19:
		return setDuration(&p.Hold, f)
	case 20:
		return setDuration(&p.Predicted, f)
	}
	return nil
}

func decodeUsage(u *Usage, data []byte) error {
	return eachField(data, func(f field) error {
		if f.number == 9 {
			u.PSSSummed = f.v != 0
			return nil
		}
		return decodeSize(1, u.sizes(), f)
	})
}

// decodeSize takes one of a row of sizes; a field beyond them is a newer version's.
func decodeSize(first int, sizes []*uint64, f field) error {
	if i := f.number - first; i < len(sizes) {
		return setBytes(sizes[i], f)
	}
	return nil
}

func (d *reading) use(p *Process, data []byte) error {
	if d.uses++; d.uses > maxUses {
		return tooMany("mappings")
	}
	var u Use
	err := eachField(data, func(f field) error {
		switch f.number {
		case 1:
			return setInt(&u.Component, f)
		case 2:
			return setInt(&u.Mappings, f)
		}
		return decodeSize(3, u.sizes(), f)
	})
	p.Uses = append(p.Uses, u)
	return err
}

func (d *reading) changes(f field) error {
	c := &d.s.Changes
	switch f.number {
	case 1:
		return addPassing(&c.Came, f)
	case 2:
		return addPassing(&c.Went, f)
	case 3:
		c.Uncounted = f.v != 0
	}
	return nil
}

func addPassing(to *[]Passing, f field) error {
	if len(*to) >= maxProcesses {
		return tooMany("changes")
	}
	var p Passing
	err := eachField(f.data, func(f field) error {
		switch f.number {
		case 1:
			return setInt(&p.PID, f)
		case 2:
			p.StartTime = f.v
		case 3:
			return setText(&p.Comm, f)
		}
		return nil
	})
	*to = append(*to, p)
	return err
}
