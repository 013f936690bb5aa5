package blocks

import (
	"bufio"
	"fmt"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/input"
)

const (
	// heaptrackPage is the page size that the file states: R lines count such pages.
	heaptrackPage = 4096
	// maxKinds bounds what is kept of sizes and stacks: 100 MB.
	maxKinds = 1 << 20
)

// writeHeaptrack writes version 1 of heaptrack's text, as heaptrack_interpret does: heaptrack_print and
// heaptrack_gui of any version read it. A line is a letter and hexadecimal numbers; strings, instructions,
// stacks and kinds of blocks are numbered in the order of their lines.
//
//	s STRING                        from 1 on
//	i ADDRESS MODULE FUNCTION [FILE LINE]
//	t INSTRUCTION PARENT            a stack: from 1 on, parents first, 0 for none
//	a SIZE STACK                    a kind, blocks of one size and stack: from 0 on
//	+ KIND, - KIND                  one is allocated, freed
//	c MILLISECONDS, R PAGES         the time since the start; the resident set
//
// Source: src/analyze/accumulatedtracedata.cpp of heaptrack.
func writeHeaptrack(out *bufio.Writer, play Source, s *survey) error {
	p, err := s.onlyProcess()
	if err != nil {
		return err
	}
	h := &heaptrackFile{out: out, survey: s, process: p}
	fmt.Fprintf(out, "v 10000 1\n# memtrace %s\n", export.Clip(s.options.Version))
	fmt.Fprintf(out, "X %s\nI %x 0\n", h.program(), heaptrackPage)
	h.writeStacks()
	h.forget()
	if err := s.follow(play, h); err != nil {
		return err
	}
	h.time(s.last)
	h.explain()
	return nil
}

// A heaptrackFile is a file that is being written, of the last program of a process.
type heaptrackFile struct {
	out     *bufio.Writer
	survey  *survey
	process *process
	kinds   map[heaptrackKind]uint64
	next    uint64 // number of the next kind
	latest  uint64 // the kind of the allocation before, 0 if a free came since: as the reader keeps it
	ms      uint64
	buf     []byte

	temporary, missed, copies uint64
}

type heaptrackKind struct {
	size  uint64
	stack int
	twin  bool
}

func (h *heaptrackFile) program() string {
	if exe := h.process.info.Exe; exe != "" {
		return export.Clip(exe)
	}
	return h.process.comm()
}

func (h *heaptrackFile) line(letter byte, numbers ...uint64) {
	h.buf = append(h.buf[:0], letter)
	for _, n := range numbers {
		h.buf = strconv.AppendUint(append(h.buf, ' '), n, 16)
	}
	h.out.Write(append(h.buf, '\n'))
}

func (h *heaptrackFile) writeStacks() {
	names := newIndex()
	number := func(s string) uint64 {
		if s == "" {
			return 0
		}
		at, isNew := names.add(s)
		if isNew {
			fmt.Fprintf(h.out, "s %s\n", s)
		}
		return uint64(at) + 1
	}
	for _, f := range h.survey.stacks.frames {
		numbers := []uint64{f.offset, number(f.module), number(f.name)}
		if f.file != "" {
			numbers = append(numbers, number(f.file), uint64(f.line))
		}
		h.line('i', numbers...)
	}
	for _, n := range h.survey.stacks.nodes {
		h.line('t', uint64(n.frame)+1, uint64(n.parent+1))
	}
}

// kind is the number of a kind, which is told first.
func (h *heaptrackFile) kind(k heaptrackKind) uint64 {
	at, ok := h.kinds[k]
	if ok {
		return at
	}
	if len(h.kinds) >= maxKinds {
		h.forget() // they get other numbers, which mean the same
	}
	at = h.next
	h.next++
	h.kinds[k] = at
	h.line('a', k.size, uint64(k.stack+1))
	return at
}

// forget forgets all kinds. The number 0 is that of none, as the reader takes it for "no allocation came before".
func (h *heaptrackFile) forget() {
	if h.kinds = make(map[heaptrackKind]uint64); h.next == 0 {
		h.line('a', 0, 0)
		h.next = 1
	}
}

// time writes the time where it has changed.
func (h *heaptrackFile) time(at uint64) {
	if ms := at / 1e6; ms > h.ms {
		h.ms = ms
		h.line('c', ms)
	}
}

func (h *heaptrackFile) happened(b *happening) {
	if keyOf(b) != h.process.key || b.Since < h.process.lastExec {
		return
	}
	h.time(b.at)
	k := heaptrackKind{size: b.weight().bytes, stack: h.survey.stacks.sites[b.Site]}
	if b.end {
		h.ended(b, k)
		return
	}
	h.latest = h.kind(k)
	h.line('+', h.latest)
	if b.Since > b.Born {
		h.copies++
	}
}

// ended writes a free. The reader calls a block temporary whose kind is that of the event before, an allocation:
// where it is another block of the kind, a second number of the kind says so.
func (h *heaptrackFile) ended(b *happening, k heaptrackKind) {
	at := h.kind(k)
	switch {
	case b.Temporary:
		h.temporary++
		if at != h.latest {
			h.missed++
		}
	case at == h.latest:
		k.twin = true
		at = h.kind(k)
	}
	h.line('-', at)
	h.latest = 0
}

func (h *heaptrackFile) told(in input.Input, at uint64) {
	if m, ok := in.(input.Memory); ok && m.PID == h.process.key.pid && at >= h.process.lastExec {
		h.time(at)
		h.line('R', m.Usage.RSS/heaptrackPage)
	}
}

// explain says where heaptrack's figures are others than the Report's.
func (h *heaptrackFile) explain() {
	s := h.survey
	s.noteSampled(h.process)
	if h.missed > 0 {
		s.note("heaptrack shows %d temporary allocations and the Report %d: it knows those alone whose free comes right after them",
			h.temporary-h.missed, h.temporary)
	}
	if h.copies > 0 {
		s.note("%d blocks that the process began with, as copies of its parent's, stand as allocations: heaptrack knows no others", h.copies)
	}
	if h.process.lastExec > 0 {
		s.note("the file is of the program since the last exec of PID %d, as heaptrack's own would be", h.process.key.pid)
	}
}
