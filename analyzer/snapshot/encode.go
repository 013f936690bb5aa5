package snapshot

import (
	"io"
)

// Write writes s as a file. The fields' numbers are those of docs/snapshot.md.
func Write(w io.Writer, s *Snapshot) error {
	b, err := newBlockWriter(w)
	if err != nil {
		return err
	}
	e := &encoder{}
	encodeMachine(e, s)
	b.block(blockMachine, e.buf)
	writeSplit(b, blockComponents, len(s.Components), func(e *encoder, i int) { encodeComponent(e, &s.Components[i]) })
	writeSplit(b, blockProcesses, len(s.Processes), func(e *encoder, i int) { encodeProcess(e, &s.Processes[i]) })
	e = &encoder{}
	encodeChanges(e, &s.Changes)
	b.block(blockChanges, e.buf)
	if s.Pages != nil {
		writePages(b, s.Pages)
	}
	return b.close()
}

// writeSplit writes n messages as field 1 of as many blocks as it takes.
func writeSplit(b *blockWriter, kind uint32, n int, encode func(e *encoder, i int)) {
	e := &encoder{}
	for i := range n {
		e.message(1, func(e *encoder) { encode(e, i) })
		if len(e.buf) >= splitAt {
			b.block(kind, e.buf)
			e.buf = e.buf[:0]
		}
	}
	if len(e.buf) > 0 {
		b.block(kind, e.buf)
	}
}

func encodeMachine(e *encoder, s *Snapshot) {
	m := &s.Machine
	e.sint(1, s.Begin.UnixNano())
	e.sint(2, s.End.UnixNano())
	e.text(3, m.Hostname)
	e.text(4, m.Kernel)
	e.text(5, m.Arch)
	e.text(6, m.BootID)
	e.text(7, m.Memtrace)
	e.uint(8, m.PageSize)
	e.uint(9, m.ClockTicks)
	e.uint(10, uint64(m.CPUs))
	e.bool(11, m.Averaged)
	encodeFigures(e, 12, m.Before)
	encodeFigures(e, 13, m.After)
	encodeFigures(e, 14, m.Pressure)
	e.uint(15, uint64(s.KernelThreads))
	e.uint(16, uint64(s.Zombies))
	for _, text := range s.Warnings {
		e.item(17, text)
	}
}

func encodeFigures(e *encoder, number int, figures []Figure) {
	for _, f := range figures {
		e.message(number, func(e *encoder) {
			e.text(1, f.Name)
			e.uint(2, f.Value)
		})
	}
}

func encodeComponent(e *encoder, c *Component) {
	e.text(1, c.Name)
	e.uint(2, uint64(c.Kind))
	e.uint(3, c.Device)
	e.uint(4, c.Inode)
}

func encodeProcess(e *encoder, p *Process) {
	e.uint(1, uint64(p.PID))
	e.uint(2, p.StartTime)
	e.uint(3, uint64(p.PPID))
	e.uint(4, uint64(p.UID))
	e.text(5, p.User)
	e.text(6, p.Comm)
	for _, arg := range p.Cmdline {
		e.item(7, arg)
	}
	e.text(8, p.Cgroup)
	e.uint(9, uint64(p.State))
	e.uint(10, p.Threads)
	e.uint(11, uint64(p.Access))
	e.text(12, p.Why)
	e.uint(13, uint64(p.CmdlineAccess))
	e.uint(14, uint64(p.CgroupAccess))
	e.uint(15, p.Resident)
	e.uint(16, p.ResidentEnd)
	e.bool(17, p.HaveEnd)
	e.uint(18, uint64(p.ReadAt))
	e.uint(19, uint64(p.Hold))
	e.uint(20, uint64(p.Predicted))
	e.message(21, func(e *encoder) { encodeUsage(e, &p.Usage) })
	for i := range p.Uses {
		e.message(22, func(e *encoder) { encodeUse(e, &p.Uses[i]) })
	}
}

func encodeUsage(e *encoder, u *Usage) {
	encodeSizes(e, 1, u.sizes())
	e.bool(9, u.PSSSummed)
}

func encodeUse(e *encoder, u *Use) {
	e.uint(1, uint64(u.Component))
	e.uint(2, uint64(u.Mappings))
	encodeSizes(e, 3, u.sizes())
}

// sizes are those in a usage's message, in the order of their fields.
func (u *Usage) sizes() []*uint64 {
	return []*uint64{&u.Size, &u.RSS, &u.PSS, &u.USS, &u.Swap, &u.Anon, &u.Hugetlb, &u.Tables}
}

// sizes are those in a use's message, in the order of their fields.
func (u *Use) sizes() []*uint64 {
	return []*uint64{&u.Size, &u.RSS, &u.PSS, &u.USS, &u.Swap, &u.Anon, &u.Hugetlb}
}

func encodeSizes(e *encoder, first int, sizes []*uint64) {
	for i, v := range sizes {
		e.uint(first+i, *v)
	}
}

func encodeChanges(e *encoder, c *Changes) {
	for i, list := range [][]Passing{c.Came, c.Went} {
		for _, p := range list {
			e.message(i+1, func(e *encoder) {
				e.uint(1, uint64(p.PID))
				e.uint(2, p.StartTime)
				e.text(3, p.Comm)
			})
		}
	}
	e.bool(3, c.Uncounted)
}
