package tracer

import (
	"debug/elf"
	"io"
	"slices"
	"sync"

	"github.com/memtrace/memtrace/tracer/debugfile"
	"github.com/memtrace/memtrace/tracer/probe"
	"github.com/memtrace/memtrace/tracer/unwind"
)

// An ExitCall is a thread's state as it called exit, or a function that executes another program: what the functions above
// may still have a use for. They never go on, but neither have they returned.
type ExitCall struct {
	SP    uint64
	Saved []uint64 // the registers that a call leaves as they are
}

// endings are the functions from which a thread enters the system call that ends its process.
var endings = append([]string{"_exit", "_Exit"}, exitCalls...)

// execLists are the functions that call execve with a list of arguments that they have made on their stack. As they take
// any number of them, they put all registers that may have one there, too, used or not.
var execLists = []string{"execl", "execle"}

const (
	// maxArguments bounds the arguments that are read of such a list.
	maxArguments = 4096
	wordSize     = 8
)

// FindExitCall goes back from a thread that is in exit_group to the call of exit, quick_exit or
// _exit that led there. Words are its general registers (NT_PRSTATUS); objects are those of its process,
// the C library among them. ok is false where the way back isn't known.
func FindExitCall(tid int, objects []probe.Object, words []uint64) (call ExitCall, ok bool) {
	f, pc, known := userFrame(words)
	if !known {
		return call, false
	}
	f.tid = tid
	for i := range objects {
		o := &objects[i]
		if _, within := offsetIn(o, pc); !within {
			continue
		}
		code, err := exitCodes.of(o)
		if err != nil {
			return call, false
		}
		return f.upToCall(o, code, code.endings, pc)
	}
	return call, false
}

// FindExecCall goes back from a thread at the first instruction of execve to the call of execl or execle that led there,
// if one did. Saved has the arguments that execve gets by its stack, too. Words and objects are FindExitCall's.
func FindExecCall(tid int, objects []probe.Object, words []uint64) (call ExitCall, ok bool) {
	f, _, known := userFrame(words)
	if !known {
		return call, false
	}
	f.tid = tid
	below := f.sp
	ret, err := readWord(tid, f.sp)
	if err != nil {
		return call, false
	}
	f.sp += wordSize
	for i := range objects {
		o := &objects[i]
		if _, within := offsetIn(o, ret-1); !within {
			continue
		}
		code, err := exitCodes.of(o)
		if err != nil {
			return call, false
		}
		if call, ok = f.upToCall(o, code, code.execLists, ret-1); !ok {
			return call, false
		}
		arguments, ok := listOf(tid, execArguments(words), below, call.SP)
		call.Saved = append(call.Saved, arguments...)
		return call, ok
	}
	return call, false
}

// listOf reads a list of pointers up to its end, as far as it lies in a part of the stack.
func listOf(tid int, at, low, high uint64) (list []uint64, ok bool) {
	for range maxArguments {
		if at < low || at >= high {
			return list, true
		}
		word, err := readWord(tid, at)
		if err != nil {
			return nil, false
		}
		if word == 0 {
			return list, true
		}
		list = append(list, word)
		at += wordSize
	}
	return nil, false
}

// maxExitFrames bounds the functions between exit and the system call.
const maxExitFrames = 16

// upToCall goes up the frames of the C library, to that of the outermost of some functions.
func (f *frame) upToCall(o *probe.Object, code *exitCode, of []unwind.Range, pc uint64) (call ExitCall, ok bool) {
	at := pc // a return address is that of the instruction after the call
	for range maxExitFrames {
		offset, inside := offsetIn(o, at)
		address, mapped := code.address(offset)
		if !inside || !mapped {
			return call, ok
		}
		ret, stepped := f.step(code.rule(address))
		if !stepped {
			return call, ok
		}
		if within(of, address) {
			call, ok = ExitCall{f.sp, slices.Clone(f.saved[:])}, true
		}
		at = ret - 1
	}
	return call, ok
}

// offsetIn is where an address of the target is in an object's file.
func offsetIn(o *probe.Object, addr uint64) (uint64, bool) {
	for _, r := range o.Text {
		if addr >= r.Start && addr < r.End {
			return addr - r.Start + r.Offset, true
		}
	}
	return 0, false
}

// A frame is what is known of a function's frame.
type frame struct {
	tid   int
	sp    uint64
	saved [unwind.SavedRegisters]uint64 // in the order of unwind.Rule.Saved
}

// step goes to the caller's frame, and returns the address that the function returns to.
func (f *frame) step(r unwind.Rule) (ret uint64, ok bool) {
	var cfa uint64
	switch r.Kind {
	case unwind.SP:
		cfa = f.sp + uint64(int64(r.CFA))
	case unwind.FP:
		cfa = f.saved[0] + uint64(int64(r.CFA))
	case unwind.Register:
		cfa = f.saved[r.Reg%unwind.SavedRegisters] + uint64(int64(r.CFA))
	default:
		return 0, false
	}
	caller := f.saved
	for i, at := range r.Saved {
		base := cfa
		switch {
		case r.FromFP>>i&1 != 0:
			base = f.saved[0]
		case at == 0:
			continue
		}
		word, err := readWord(f.tid, base+uint64(int64(at)*8))
		if err != nil {
			return 0, false
		}
		caller[i] = word
	}
	if cfa <= f.sp {
		return 0, false
	}
	ret, err := readWord(f.tid, cfa-8)
	f.sp, f.saved = cfa, caller
	return ret, err == nil
}

// An exitCode is what is to be known of a C library.
type exitCode struct {
	file      *unwind.File
	words     [][]uint32 // by segment
	rules     []unwind.Rule
	endings   []unwind.Range
	execLists []unwind.Range
}

// exitFiles are the C libraries that programs ended in.
type exitFiles struct {
	mu    sync.Mutex
	known map[exitFile]*exitCode
}

type exitFile struct {
	major, minor uint32
	inode        uint64
	buildID      string
}

var exitCodes = exitFiles{known: make(map[exitFile]*exitCode)}

// maxExitFiles bounds the files that are kept: programs share the C library, but for static ones.
const maxExitFiles = 8

func (e *exitFiles) of(o *probe.Object) (*exitCode, error) {
	id := exitFile{o.Major, o.Minor, o.Inode, o.BuildID}
	e.mu.Lock()
	defer e.mu.Unlock()
	if code := e.known[id]; code != nil {
		return code, nil
	}
	code, err := readExitCode(o.File)
	if err != nil {
		return nil, err
	}
	if len(e.known) >= maxExitFiles {
		clear(e.known)
	}
	e.known[id] = code
	return code, nil
}

func readExitCode(file io.ReaderAt) (*exitCode, error) {
	f, err := debugfile.ReadELF(file)
	if err != nil {
		return nil, err
	}
	c := &exitCode{rules: []unwind.Rule{{}}, endings: functionsOf(f, endings), execLists: functionsOf(f, execLists)}
	if c.file, err = unwind.Read(file); err != nil {
		return nil, err
	}
	numbers := map[unwind.Rule]uint32{{}: 0}
	number := func(r unwind.Rule) uint32 {
		n, known := numbers[r]
		if !known {
			n = uint32(len(c.rules))
			numbers[r] = n
			c.rules = append(c.rules, r)
		}
		return n
	}
	for _, s := range c.file.Segments {
		var words []uint32
		if s.Table != nil {
			words = s.Table.Encode(1, number)
		}
		c.words = append(c.words, words)
	}
	return c, nil
}

// functionsOf finds functions, in all their versions.
func functionsOf(f *elf.File, names []string) (out []unwind.Range) {
	for _, s := range debugfile.FindSymbols(f, names...) {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			out = append(out, unwind.Range{Start: s.Value, End: s.Value + s.Size})
		}
	}
	return out
}

// address is where a place in the file is linked to.
func (c *exitCode) address(offset uint64) (uint64, bool) {
	for _, s := range c.file.Segments {
		if offset >= s.Offset && offset-s.Offset < s.Size {
			return offset - s.Offset + s.Address, true
		}
	}
	return 0, false
}

func (c *exitCode) rule(address uint64) unwind.Rule {
	for i, s := range c.file.Segments {
		if s.Table != nil && address >= s.Table.Text.Start && address < s.Table.Text.End {
			return c.rules[unwind.Lookup(c.words[i], address-s.Table.Text.Start)]
		}
	}
	return unwind.Rule{}
}

// within reports whether code at an address is one of some functions'.
func within(functions []unwind.Range, address uint64) bool {
	return slices.ContainsFunc(functions, func(r unwind.Range) bool { return address >= r.Start && address < r.End })
}
