//go:build linux && !viewer

package goheap

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrDisabled: the program has no memory profile. Go's linker switches it off where nothing in the program can ask for it.
var ErrDisabled = errors.New("its memory profile is off (runtime.MemProfileRate is 0). Go's linker switches it off where nothing in the program can reach " +
	"runtime.MemProfile: import net/http/pprof or runtime/pprof and use it, or call runtime.MemProfile, and build again")

const (
	// maxWalks bounds how often the list is read for two that agree.
	maxWalks = 4
	// maxStacks bounds the stacks that are told apart, maxStackFrames their frames; the others are one site without a stack.
	maxStacks, maxStackFrames = 1 << 16, 1 << 19
)

// A Reader reads one process's memory profile, again and again.
type Reader struct {
	pid     int
	program *program
	at      variables
	stacks  map[string]int // by return addresses: numbers from 1 on
	depths  int            // sum of their lengths
	frames  map[uint64]Frame
}

// Open finds the memory profile of a process. The error says why there is none: it is one of ErrNotGo, ErrVersion, ErrNotFound or of a
// file or a process that could not be read.
func Open(pid int) (*Reader, error) {
	p, err := openProgram(pid)
	if err != nil {
		return nil, err
	}
	r := &Reader{pid: pid, program: p, stacks: make(map[string]int), frames: make(map[uint64]Frame)}
	if err := r.locate(); err != nil {
		p.close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) locate() error {
	mem := ofMemory(memory{r.pid}, memoryRoom)
	m, err := r.program.findModule(mem)
	if err != nil {
		return err
	}
	r.program.table.text = m.text
	r.program.table.inline, _ = r.program.offset(m.gofunc)
	r.at, err = r.program.locate(m)
	return err
}

// Close lets go of the program's file.
func (r *Reader) Close() { r.program.close() }

// Version is that of the Go that built the program, such as go1.26.1.
func (r *Reader) Version() string { return r.program.version }

func (r *Reader) bias() uint64 { return r.program.bias }

// A Profile is a program's memory profile at one instant.
type Profile struct {
	Version   string // of Go
	By        string // how the profile was found: symbols, code
	Rate      int64  // one sample in so many bytes, on average; 1: every block
	Cycle     uint32 // garbage collections that it has seen, modulo some large number
	BeforeGC  bool   // no garbage collection has ended yet: all blocks count as live
	Unsettled bool   // Go was publishing samples during each walk: sites may be of different collections
	Cut       bool   // there were more buckets than are read; the newest ones are here
	Buckets   int
	Sites     []Site // in the order of their numbers

	Calls, Bytes int           // of reading the process's memory
	Took         time.Duration // all of it
}

// A Site is what one call stack allocated.
type Site struct {
	Stack        int // its number, from 1 on; 0: of all stacks that there was no room for
	Addrs        []uint64
	Alloc, InUse Estimate
}

// Read reads the profile as of now. The error may be ErrDisabled.
func (r *Reader) Read() (*Profile, error) {
	began := time.Now()
	out := &Profile{Version: r.program.version, By: r.at.by}
	var w walk
	var figures, before []cycle
	for i := range maxWalks {
		mem := ofMemory(memory{r.pid}, memoryRoom)
		var err error
		w, err = r.walk(mem)
		out.Calls += mem.calls
		out.Bytes += int(mem.bytes)
		if err != nil {
			return nil, err
		}
		if w.rate <= 0 {
			return nil, ErrDisabled
		}
		figures, out.BeforeGC = w.published()
		out.Unsettled = i > 0 && !agree(figures, before)
		if i > 0 && !out.Unsettled || out.BeforeGC {
			break
		}
		before = figures
	}
	out.Rate, out.Cycle, out.Cut, out.Buckets = w.rate, w.cycle>>1, w.cut, len(w.buckets)
	out.Sites = r.sites(&w, figures)
	out.Took = time.Since(began)
	return out, nil
}

// agree reports whether the buckets of an earlier walk, which end a later one, have the same counts in both.
func agree(now, before []cycle) bool {
	if len(now) < len(before) {
		return false
	}
	now = now[len(now)-len(before):]
	for i := range before {
		if now[i] != before[i] {
			return false
		}
	}
	return true
}

// sites sums up the buckets of each stack.
func (r *Reader) sites(w *walk, figures []cycle) []Site {
	var out []Site
	place := make(map[int]int)
	for i := range w.buckets {
		b, c := &w.buckets[i], figures[i]
		if c.allocs == 0 {
			continue
		}
		number := r.number(b.stack)
		k, ok := place[number]
		if !ok {
			k = len(out)
			place[number] = k
			out = append(out, Site{Stack: number, Addrs: b.stack})
		}
		out[k].Alloc.add(counts{c.allocs, c.allocBytes}.scale(w.rate))
		out[k].InUse.add(c.inUse().scale(w.rate))
	}
	return out
}

func (r *Reader) number(stack []uint64) int {
	key := make([]byte, 0, 8*len(stack))
	for _, pc := range stack {
		for shift := 0; shift < 64; shift += 8 {
			key = append(key, byte(pc>>shift))
		}
	}
	n, ok := r.stacks[string(key)]
	if !ok && len(r.stacks) < maxStacks && r.depths+len(stack) <= maxStackFrames {
		r.depths += len(stack)
		n = len(r.stacks) + 1
		r.stacks[string(key)] = n
	}
	return n
}

// Frames names a stack, innermost function first. Leading functions of the runtime are left out, as pprof does, unless there are no others.
func (r *Reader) Frames(addrs []uint64) []Frame {
	out := make([]Frame, 0, len(addrs))
	for _, addr := range addrs {
		f := r.frame(addr - 1 - r.bias()) // a return address: the call is before it
		if f.Function != "runtime.goexit" {
			out = append(out, f)
		}
	}
	for i := range out {
		if !isRuntime(out[i].Function) {
			return out[i:]
		}
	}
	return out
}

func isRuntime(name string) bool {
	return strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/runtime/")
}

// maxFrames bounds the addresses whose names are remembered.
const maxFrames = 1 << 16

func (r *Reader) frame(pc uint64) Frame {
	if f, ok := r.frames[pc]; ok {
		return f
	}
	f, ok := r.program.table.frame(pc)
	if !ok {
		f = Frame{Function: fmt.Sprintf("%#x", pc), Addr: pc}
	}
	if len(r.frames) < maxFrames {
		r.frames[pc] = f
	}
	return f
}
