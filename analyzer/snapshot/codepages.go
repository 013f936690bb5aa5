package snapshot

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Runs are written as columns, each a bytes field of uvarints, as neighbours in
// a column are alike and compress well. Addresses and frames are written as
// the distance from the end of the run before.

// runsAtOnce is how many runs a message holds at most.
const runsAtOnce = 64 << 10

func writePages(b *blockWriter, p *Pages) {
	e := &encoder{}
	e.uint(1, uint64(p.FramesAccess))
	e.text(2, p.FramesWhy)
	e.uint(3, p.FramesLeft)
	b.block(blockFrames, e.buf)
	for rest := p.Frames; len(rest) > 0; {
		n := min(len(rest), runsAtOnce)
		b.block(blockFrames, encodeFrames(rest[:n]))
		rest = rest[n:]
	}
	e = &encoder{}
	for i := range p.Processes {
		pp := &p.Processes[i]
		for rest := pp.Runs; ; {
			n := min(len(rest), runsAtOnce)
			e.message(1, func(e *encoder) { encodePages(e, pp, rest[:n]) })
			if len(e.buf) >= splitAt/4 {
				b.block(blockPages, e.buf)
				e.buf = e.buf[:0]
			}
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
	}
	if len(e.buf) > 0 {
		b.block(blockPages, e.buf)
	}
}

// columns encodes n rows of width numbers each as as many columns.
func columns(e *encoder, first, width, n int, row func(i int, to []uint64)) {
	cols, values := make([][]byte, width), make([]uint64, width)
	for i := range n {
		row(i, values)
		for c, v := range values {
			cols[c] = binary.AppendUvarint(cols[c], v)
		}
	}
	for c := range cols {
		e.text(first+c, string(cols[c]))
	}
}

func encodeFrames(runs []FrameRun) []byte {
	e, end := &encoder{}, uint64(0)
	columns(e, 4, 4, len(runs), func(i int, to []uint64) {
		r := &runs[i]
		to[0], to[1], to[2], to[3] = r.First-end, uint64(r.Count), uint64(r.Mapped), r.Flags
		end = r.First + uint64(r.Count)
	})
	return e.buf
}

func encodePages(e *encoder, p *ProcessPages, runs []PageRun) {
	e.uint(1, uint64(p.Process))
	e.uint(2, uint64(p.Access))
	e.text(3, p.Why)
	page, frame := uint64(0), uint64(0)
	columns(e, 4, 4, len(runs), func(i int, to []uint64) {
		r := &runs[i]
		to[0], to[1], to[2], to[3] = r.Page-page, uint64(r.Count), uint64(r.Component), zigzag(int64(r.Frame-frame))
		page, frame = r.Page+uint64(r.Count), r.Frame+uint64(r.Count)
	})
}

// rowsOf returns how many rows columns have at most: a number ends with a byte
// below 128.
func rowsOf(cols *[4][]byte) (n uint64) {
	for _, b := range cols[0] {
		if b < 0x80 {
			n++
		}
	}
	return n
}

// eachRow decodes columns.
func eachRow(cols *[4][]byte, row func(v [4]uint64) error) error {
	for len(cols[0]) > 0 {
		var v [4]uint64
		for c := range cols {
			value, n := binary.Uvarint(cols[c])
			if n <= 0 {
				return fmt.Errorf("%w: a column of pages is too short", ErrCorrupt)
			}
			v[c], cols[c] = value, cols[c][n:]
		}
		if v[1] == 0 || v[1] > 1<<31 {
			return fmt.Errorf("%w: a run of %d pages", ErrCorrupt, v[1])
		}
		if err := row(v); err != nil {
			return err
		}
	}
	return nil
}

// columnOf takes a field that is a column.
func columnOf(cols *[4][]byte, f field) {
	if f.number >= 4 && f.number < 4+len(cols) {
		cols[f.number-4] = f.data
	}
}

func (d *reading) pages() *Pages {
	if d.s.Pages == nil {
		d.s.Pages = &Pages{}
	}
	return d.s.Pages
}

// maxNumber bounds page and frame numbers: addresses have 64 bits, pages 512 bytes.
const maxNumber = 1 << 55

func (d *reading) frames(raw []byte) error {
	p, cols := d.pages(), [4][]byte{}
	err := eachField(raw, func(f field) error {
		switch f.number {
		case 1:
			p.FramesAccess = access(f.v)
		case 2:
			return d.setText(&p.FramesWhy, f)
		case 3:
			p.FramesLeft = min(f.v, maxNumber)
		}
		columnOf(&cols, f)
		return nil
	})
	if err != nil {
		return err
	}
	n := rowsOf(&cols)
	if err := d.room.take("frames", costRun*n); err != nil {
		return err
	}
	p.Frames = slices.Grow(p.Frames, int(n))
	end := uint64(0)
	return eachRow(&cols, func(v [4]uint64) error {
		if len(p.Frames) >= maxRuns {
			return tooMany("frames")
		}
		if v[0] > maxNumber || end > maxNumber || v[2] > math.MaxUint32 {
			return fmt.Errorf("%w: a frame's number is too large", ErrCorrupt)
		}
		r := FrameRun{First: end + v[0], Count: uint32(v[1]), Mapped: uint32(v[2]), Flags: v[3]}
		end = r.First + v[1]
		p.Frames = append(p.Frames, r)
		return nil
	})
}

// processPages takes a message about one process; a process may have several.
func (d *reading) processPages(f field) error {
	if f.number != 1 {
		return nil
	}
	var p ProcessPages
	var cols [4][]byte
	err := eachField(f.data, func(f field) error {
		switch f.number {
		case 1:
			return setInt(&p.Process, f)
		case 2:
			p.Access = access(f.v)
		case 3:
			return d.setText(&p.Why, f)
		}
		columnOf(&cols, f)
		return nil
	})
	if err != nil {
		return err
	}
	all := &d.pages().Processes
	if n := len(*all); n == 0 || (*all)[n-1].Process != p.Process {
		if n >= maxProcesses {
			return tooMany("processes")
		}
		if err := d.room.take("pages", costPages); err != nil {
			return err
		}
		*all = append(*all, p)
	}
	return d.pageRuns(&(*all)[len(*all)-1], &cols)
}

func (d *reading) pageRuns(to *ProcessPages, cols *[4][]byte) error {
	n := rowsOf(cols)
	if err := d.room.take("pages", costRun*n); err != nil {
		return err
	}
	to.Runs = slices.Grow(to.Runs, int(n))
	page, frame := uint64(0), uint64(0)
	return eachRow(cols, func(v [4]uint64) error {
		if d.runs++; d.runs > maxRuns {
			return tooMany("pages")
		}
		frame += uint64(unzigzag(v[3]))
		if v[0] > maxNumber || page > maxNumber || frame > maxNumber || v[2] > math.MaxUint32 {
			return fmt.Errorf("%w: a page's number is too large", ErrCorrupt)
		}
		r := PageRun{Page: page + v[0], Frame: frame, Count: uint32(v[1]), Component: uint32(v[2])}
		page, frame = r.Page+v[1], frame+v[1]
		to.Runs = append(to.Runs, r)
		return nil
	})
}

// checkPages looks at the whole: runs are in order and refer to what is there.
func (d *reading) checkPages() error {
	p := d.s.Pages
	if p == nil {
		return nil
	}
	for i := range p.Processes {
		pp := &p.Processes[i]
		if pp.Process >= len(d.s.Processes) || i > 0 && p.Processes[i-1].Process >= pp.Process {
			return fmt.Errorf("%w: its pages are not in the order of its processes", ErrCorrupt)
		}
		end := uint64(0)
		for _, r := range pp.Runs {
			if r.Page < end || int(r.Component) >= len(d.s.Components) {
				return fmt.Errorf("%w: the pages of process %d are not in order", ErrCorrupt, d.s.Processes[pp.Process].PID)
			}
			end = r.Page + uint64(r.Count)
		}
	}
	end := uint64(0)
	for _, r := range p.Frames {
		if r.First < end {
			return fmt.Errorf("%w: its frames are not in order", ErrCorrupt)
		}
		end = r.First + uint64(r.Count)
	}
	return nil
}
