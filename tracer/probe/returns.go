package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A return probe replaces a function's return address by that of the kernel's trampoline. An exception
// passes that on few kernels only, and where the threads of a program's own that wait in such a function return in another
// order than they came in, the program goes on at wrong places. So of functions that may do so, the return instructions
// themselves are probed: those that any path from the entry leads to, through jumps into other parts and other
// functions, too. Which of them return a call is told by the stack pointer when they are executed.

// Bounds on the code that is followed for one function.
const (
	maxParts   = 128
	maxReturns = 256
)

// keepsReturn says whether the function's return address must be left as it is: an operator new that throws, unless the
// user takes that risk, and what the user names, of which nobody knows what it does. What layers have is known to do
// neither.
func (im *image) keepsReturn(s symbol) bool {
	return s.shape.HasReturn() && (s.throws && !im.replacesReturns || s.family == User && s.layer == "")
}

// needsResult says whether nothing is known of a call whose return isn't seen.
func (s symbol) needsResult() bool { return s.shape != Release && s.shape != PoolChange }

// leaving is how calls of a function return.
type leaving struct {
	at      []uint64 // addresses of return instructions
	handsTo []Handed
	open    bool // it may return where that isn't seen
	framed  bool // return addresses are stored, and in frame records alone
}

// leavingOf finds how calls of a function return. The error says why that can't be known.
func (im *image) leavingOf(s symbol, known entries) (leaving, error) {
	w := walk{im: im, known: known, start: s, seen: map[uint64]bool{}, at: map[uint64]bool{}}
	w.enter(s.addr)
	for len(w.parts) > 0 && w.err == nil {
		part := w.parts[0]
		w.parts = w.parts[1:]
		w.err = w.follow(part)
	}
	out := leaving{
		at: slices.Sorted(maps.Keys(w.at)), handsTo: w.handsTo, framed: w.saves[inRecord] && !w.saves[elsewhere],
	}
	switch {
	case !s.needsResult():
		out.open = w.err != nil || w.open
		return out, nil // what isn't found costs little: a call that comes later shows that this one has ended
	case w.err != nil:
		return leaving{}, w.err
	case len(out.at) == 0 && len(out.handsTo) == 0:
		return leaving{}, errors.New("no return instruction of it was found")
	}
	return out, nil
}

// errPointer: where a jump leads is known when it is executed only.
var errPointer = errors.New("it jumps on through a pointer")

// walk is the search for a function's return instructions.
type walk struct {
	im    *image
	known entries
	start symbol
	parts []uint64 // addresses to go on from
	seen  map[uint64]bool
	at    map[uint64]bool
	err   error

	handsTo []Handed
	open    bool
	saves   [3]bool // how return addresses are saved
}

// handOn notes a jump to another probed function, which returns for this one; a releasing one does so unseen.
func (w *walk) handOn(to Handed) {
	if !slices.Contains(w.handsTo, to) {
		w.handsTo = append(w.handsTo, to)
	}
	w.open = w.open || to.Shape.releases()
}

// enter has the code at an address followed.
func (w *walk) enter(addr uint64) {
	if w.seen[addr] {
		return
	}
	w.seen[addr] = true
	w.parts = append(w.parts, addr)
}

// follow follows the code from addr on, up to where it leaves its function.
func (w *walk) follow(addr uint64) error {
	if len(w.seen) > maxParts {
		return errors.New("it leads to too much code")
	}
	extent, ok := w.im.extent(addr, w.start)
	if !ok {
		return fmt.Errorf("where the code at %#x ends isn't known", addr)
	}
	code, ok := w.im.steps(extent)
	if !ok {
		return fmt.Errorf("the code at %#x can't be decoded", addr)
	}
	queue, queued := []uint64{addr}, map[uint64]bool{addr: true}
	push := func(to uint64) {
		if !queued[to] {
			queued[to] = true
			queue = append(queue, to)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		in, ok := code[at]
		if !ok {
			return fmt.Errorf("a jump leads into the midst of an instruction, at %#x", at)
		}
		if err := w.step(at, in, extent, code, push); err != nil && (!w.start.throws || !errors.Is(err, errPointer)) {
			return err // an operator new may jump through a pointer, as to its handler of failures: such a call is left
		}
	}
	return nil
}

// step goes on from one instruction: push is given what follows within the extent.
func (w *walk) step(at uint64, in step, extent span, code map[uint64]step, push func(uint64)) error {
	w.saves[in.saves] = true
	if in.returns {
		if w.at[at] = true; len(w.at) > maxReturns {
			return errors.New("it has too many return instructions")
		}
		return nil
	}
	if in.target != 0 {
		if in.target >= extent.lo && in.target < extent.hi {
			push(in.target)
		} else if err := w.leave(in.target); err != nil {
			return err
		}
	}
	switch {
	case in.table: // to anywhere in the function
		for addr := range code {
			push(addr)
		}
	case in.pointer:
		return w.jumpTo(in.word)
	case in.ends:
	case at+in.size < extent.hi:
		push(at + in.size)
	case !in.calls: // else that one does not return
		return w.leave(at + in.size)
	}
	return nil
}

// jumpTo goes on from a jump to where a word leads; 0: through a register.
func (w *walk) jumpTo(word uint64) error {
	if to, ok := w.im.slots[word]; ok && word != 0 {
		return w.leave(to)
	}
	if name := w.im.imports[word]; name != "" && word != 0 {
		return w.handOver(name)
	}
	return errPointer
}

// handOver is a jump to a function of another file.
func (w *walk) handOver(name string) error {
	fn, ok := functionsByName[name]
	if ok && fn.prefix == "" && fn.group == groupC && (fn.shape.HasReturn() || !w.start.needsResult()) {
		w.handOn(Handed{Name: name, Shape: fn.shape})
		return nil
	}
	return fmt.Errorf("it jumps on to %s of another file, whose return isn't seen", name)
}

// leave is a jump out of the function.
func (w *walk) leave(to uint64) error {
	for range 8 {
		s, ok := w.known[to]
		returns := s.shape.HasReturn() && !w.im.keepsReturn(s) || s.shape.releases() && !w.start.needsResult()
		if ok && s.addr != w.start.addr && returns {
			w.handOn(Handed{s.name, s.family, s.shape})
			return nil
		}
		word, stub := w.im.stub(to)
		if !stub {
			break
		}
		next, own := w.im.slots[word]
		if !own {
			return w.jumpTo(word)
		}
		to = next
	}
	w.enter(to)
	return nil
}

// step is an instruction as the search sees it.
type step struct {
	size    uint64
	target  uint64 // of a relative jump or branch
	word    uint64 // that a jump goes through; 0: none
	returns bool
	ends    bool // what follows is not executed after it
	calls   bool
	pointer bool // a jump through a register or memory
	table   bool // one to places of the function itself
	saves   saved
}

// saved is how an instruction saves the return address that is in a register.
type saved uint8

const (
	unsaved saved = iota
	inRecord
	elsewhere
)

// steps decodes an extent. On amd64 every byte must belong to an instruction.
func (im *image) steps(extent span) (map[uint64]step, bool) {
	if extent.hi-extent.lo > maxBody {
		return nil, false
	}
	if im.file.Machine == elf.EM_AARCH64 {
		return im.stepsARM64(extent)
	}
	code, ok := im.body(extent.lo, extent.hi-extent.lo)
	if !ok {
		return nil, false
	}
	return code.steps(func(at uint64) bool { return im.isTable(at, extent) }), true
}

// findReturns says how a function's returns are seen. An error says why they can't be: it is not to be probed.
func (im *image) findReturns(p *Probe, s symbol, known entries) error {
	if !im.keepsReturn(s) {
		return nil
	}
	out, err := im.leavingOf(s, known)
	if err != nil {
		return fmt.Errorf("%w, so that its result can't be seen without a change of its return address, "+
			"which no exception and no switch of stacks would pass", err)
	}
	p.KeepsReturn, p.HandsTo = true, out.handsTo
	p.OpenEnded, p.KeepsFrame = out.open && s.shape == Release, out.framed
	for _, at := range out.at {
		offset, ok := im.fileOffset(at)
		if !ok {
			return errors.New("its code cannot be read")
		}
		p.Returns = append(p.Returns, offset)
	}
	return nil
}
