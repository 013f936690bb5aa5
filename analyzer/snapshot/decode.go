package snapshot

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// What a reader takes of each sort.
const (
	maxProcesses  = 4 << 20 // PID_MAX_LIMIT of the kernel
	maxComponents = 4 << 20
	maxUses       = 16 << 20 // over all processes
	maxStrings    = 4096     // warnings, figures of a file
	maxArguments  = 16 << 12 // of a process, which may have many short ones
	maxText       = 64 << 10
	maxBytes      = 1 << 57 // a figure; the largest address space there is
	maxSum        = 1 << 62 // all figures of one sort together
)

// Numbers of fields of which a process may have many.
const (
	fieldArgument = 7
	fieldUse      = 22
)

// Read reads a file that Write wrote, whatever machine that was on. The errors
// are ErrNotSnapshot, ErrVersion, ErrCorrupt, ErrTooLarge and r's own.
func Read(r io.Reader) (*Snapshot, error) { return ReadWithin(r, DefaultRoom) }

// ReadWithin is Read for a snapshot that may take so many bytes of memory,
// while it is read and after.
func ReadWithin(r io.Reader, limit uint64) (*Snapshot, error) {
	d := &reading{s: &Snapshot{}, room: room{limit: limit}}
	b, err := newBlockReader(r, &d.room)
	if err != nil {
		return nil, err
	}
	defer b.close()
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
	room room
}

// block takes one block; unknown kinds are a newer version's, and skipped.
func (d *reading) block(kind uint32, raw []byte) error {
	switch kind {
	case blockMachine:
		d.seen = true
		return eachField(raw, d.machine)
	case blockComponents:
		return d.components(raw)
	case blockProcesses:
		return d.processes(raw)
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
		return d.setText(&m.Hostname, f)
	case 4:
		return d.setText(&m.Kernel, f)
	case 5:
		return d.setText(&m.Arch, f)
	case 6:
		return d.setText(&m.BootID, f)
	case 7:
		return d.setText(&m.Memtrace, f)
	case 8:
		m.PageSize = f.v
	case 9:
		m.ClockTicks = f.v
	case 10:
		return setInt(&m.CPUs, f)
	case 11:
		m.Averaged = f.v != 0
	case 12:
		return d.addFigure(&m.Before, f)
	case 13:
		return d.addFigure(&m.After, f)
	case 14:
		return d.addFigure(&m.Pressure, f)
	case 15:
		return setInt(&s.KernelThreads, f)
	case 16:
		return setInt(&s.Zombies, f)
	case 17:
		return d.addText(&s.Warnings, maxStrings, f)
	}
	return nil
}

func (d *reading) components(raw []byte) error {
	n, err := count(raw, 1)
	if err != nil {
		return err
	}
	if len(d.s.Components)+n > maxComponents {
		return tooMany("components")
	}
	if err := d.room.take("components", costComponent*uint64(n)); err != nil {
		return err
	}
	d.s.Components = slices.Grow(d.s.Components, n)
	return eachField(raw, d.component)
}

func (d *reading) component(f field) error {
	if f.number != 1 {
		return nil
	}
	var c Component
	err := eachField(f.data, func(f field) error {
		switch f.number {
		case 1:
			return d.setText(&c.Name, f)
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

func (d *reading) processes(raw []byte) error {
	n, err := count(raw, 1)
	if err != nil {
		return err
	}
	if len(d.s.Processes)+n > maxProcesses {
		return tooMany("processes")
	}
	if err := d.room.take("processes", costProcess*uint64(n)); err != nil {
		return err
	}
	d.s.Processes = slices.Grow(d.s.Processes, n)
	return eachField(raw, d.process)
}

func (d *reading) process(f field) error {
	if f.number != 1 {
		return nil
	}
	p := Process{}
	if err := d.lists(&p, f.data); err != nil {
		return err
	}
	err := eachField(f.data, func(f field) error {
		switch {
		case f.number == 21:
			return decodeUsage(&p.Usage, f.data)
		case f.number == fieldUse:
			return d.use(&p, f.data)
		case f.number > 10:
			return d.processReading(&p, f)
		}
		return d.processIdentity(&p, f)
	})
	if err == nil && p.PID == 0 {
		err = fmt.Errorf("%w: a process without PID", ErrCorrupt)
	}
	d.s.Processes = append(d.s.Processes, p)
	return err
}

// lists makes the lists of a process, as long as its message has entries.
func (d *reading) lists(p *Process, msg []byte) error {
	uses, err := count(msg, fieldUse)
	if err != nil {
		return err
	}
	args, err := count(msg, fieldArgument)
	if err != nil {
		return err
	}
	if d.uses += uses; d.uses > maxUses {
		return tooMany("mappings")
	}
	if args > maxArguments {
		return tooMany("strings")
	}
	if err := d.room.take("uses of components", costUse*uint64(uses)); err != nil {
		return err
	}
	if uses > 0 {
		p.Uses = make([]Use, 0, uses)
	}
	if args > 0 {
		p.Cmdline = make([]string, 0, args)
	}
	return nil
}

// processIdentity takes the fields that say what the process is.
func (d *reading) processIdentity(p *Process, f field) error {
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
		return d.setText(&p.User, f)
	case 6:
		return d.setText(&p.Comm, f)
	case fieldArgument:
		return d.addText(&p.Cmdline, maxArguments, f)
	case 8:
		return d.setText(&p.Cgroup, f)
	case 9:
		p.State = byte(f.v)
	case 10:
		p.Threads = f.v
	}
	return nil
}

// processReading takes the fields that say how its memory was read.
func (d *reading) processReading(p *Process, f field) error {
	switch f.number {
	case 11:
		p.Access = access(f.v)
	case 12:
		return d.setText(&p.Why, f)
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
		return d.addPassing(&c.Came, f)
	case 2:
		return d.addPassing(&c.Went, f)
	case 3:
		c.Uncounted = f.v != 0
	}
	return nil
}

func (d *reading) addPassing(to *[]Passing, f field) error {
	if len(*to) >= maxProcesses {
		return tooMany("changes")
	}
	if err := d.room.take("changes", 2*costPassing); err != nil { // the list grows by a copy
		return err
	}
	var p Passing
	err := eachField(f.data, func(f field) error {
		switch f.number {
		case 1:
			return setInt(&p.PID, f)
		case 2:
			p.StartTime = f.v
		case 3:
			return d.setText(&p.Comm, f)
		}
		return nil
	})
	*to = append(*to, p)
	return err
}
