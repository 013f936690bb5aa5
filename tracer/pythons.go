package tracer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/probe"
	"github.com/memtrace/memtrace/tracer/python"
)

// pythons are the CPython interpreters in the traced processes. The kernel's half reads their frames; what
// those are called is read here, as soon as a stack with new ones comes.
type pythons struct {
	kernel *ebpf.Map      // interpreters, by process
	on     *ebpf.Variable // whether there is any
	freed  *codeProbes
	names  python.Names
	off    bool // none is looked for

	mu      sync.Mutex
	images  map[int]pythonImage
	notes   []string
	pending map[event.StackID][]python.Frame // of stacks that are still to come
	cut     map[event.StackID]bool           // those of them that have more frames
}

type pythonImage struct {
	*python.Image
	found   uint64    // ns, CLOCK_MONOTONIC
	watched bool      // it was tried to put a probe on what frees code objects
	probe   link.Link // that; nil: there is none
}

const (
	maxPythonNotes   = 32
	maxPythonPending = 1024
	maxPythonImages  = 4096 // as the kernel's half has room for
)

func newPythons(kernel *kernelHalf, c Config, closing *closeQueue) *pythons {
	coll := kernel.coll
	return &pythons{
		freed:  newCodeProbes(kernel, c, closing),
		off:    c.NoPython,
		kernel: coll.Maps[bpf.MemtraceMapInterpreters], on: coll.Variables[bpf.MemtraceVarHasInterpreters],
		images: make(map[int]pythonImage), pending: make(map[event.StackID][]python.Frame), cut: make(map[event.StackID]bool),
	}
}

// look finds the interpreter of process pid, if it has mapped one by now. What fails is tried again when the process
// maps more code.
func (p *pythons) look(pid int) { p.lookIn(pid, listing{}) }

// lookIn is look where what the process has mapped may have been listed.
func (p *pythons) lookIn(pid int, listed listing) {
	if p.off {
		return
	}
	p.mu.Lock()
	im := p.lookLocked(pid, listed)
	p.mu.Unlock()
	if im != nil && p.freed != nil {
		p.watchCode(pid, im)
	}
}

func (p *pythons) lookLocked(pid int, listed listing) *python.Image {
	var there bpf.MemtraceInterpreter
	if im := p.images[pid].Image; im != nil && p.kernel.Lookup(uint32(pid), &there) == nil {
		return im
	}
	files, found := codeFiles(pid, listed)
	defer closeFiles(files)
	im := p.find(pid, files)
	if im == nil {
		return nil
	}
	if err := p.install(pid, im); err != nil {
		p.note(fmt.Sprintf("read the Python frames of process %d: %v", pid, err))
		return nil
	}
	p.closeProbe(pid)
	p.images[pid] = pythonImage{Image: im, found: found}
	return im
}

// codeFiles opens what may be an interpreter, and returns the time before that was listed. What can't be opened has no
// Python frames.
func codeFiles(pid int, listed listing) (files []probe.CodeFile, at uint64) {
	if listed.mappings != nil {
		files, _ = probe.CodeFilesIn("/proc", pid, listed.mappings, python.MayBe)
		return files, listed.at
	}
	at = monotonic()
	files, _ = probe.CodeFiles("/proc", pid, python.MayBe)
	return files, at
}

func closeFiles(files []probe.CodeFile) {
	for _, f := range files {
		_ = f.File.Close()
	}
}

// find returns the interpreter that process pid has mapped; nil: none that is known.
func (p *pythons) find(pid int, files []probe.CodeFile) *python.Image {
	for _, f := range files {
		im, err := python.Find(pid, python.Mapping{Start: f.Start, Offset: f.Offset, Path: f.Path}, f.File)
		if errors.Is(err, python.ErrUnknownVersion) {
			p.note(fmt.Sprintf("%s: %v: its stacks show native frames alone", f.Path, err))
		}
		if im != nil && len(p.images) < maxPythonImages {
			return im
		}
	}
	return nil
}

func (p *pythons) note(text string) {
	if len(p.notes) < maxPythonNotes && !slices.Contains(p.notes, text) {
		p.notes = append(p.notes, text)
	}
}

// install tells the kernel's half where process pid has its frames.
func (p *pythons) install(pid int, im *python.Image) error {
	// The first keys of thread-specific data lie in the thread's descriptor, each with a sequence number and a value
	// (nptl/descr.h, specific_1stblock; the same in every glibc for x86-64 since 2.3). With another C library the word there is
	// no state that names its thread, and is not believed.
	const keys, specific = 32, 0x310 + 8
	l := im.Layout
	in := bpf.MemtraceInterpreter{
		Key: im.Runtime + l.Key, Keys: keys, Specific: specific, ThreadId: l.ThreadID, Frame: l.Frame, Via: l.Via,
		FrameBytes: l.FrameBytes, Previous: l.Previous, Code: l.Code, Last: l.Last, Enters: l.Enters, Owner: l.Owner, Entry: uint32(l.Entry),
		Instructions: l.Instructions, CodeFrom: l.CodeFrom(), CodeBytes: l.CodeBytes(),
		Lines: l.Lines - l.CodeFrom(), FirstLine: l.FirstLine - l.CodeFrom(),
		FileName: l.FileName - l.CodeFrom(), Name: l.Name - l.CodeFrom(),
	}
	if l.Version != 0 {
		in.Version = l.Version - l.CodeFrom()
	}
	if l.Current != 0 {
		in.Current = im.Runtime + l.Current
	}
	if l.Entry != python.EntersAll {
		in.Chunked = 1
	}
	if l.LastIsIndex {
		in.LastIsIndex = 1
	}
	if err := p.kernel.Put(uint32(pid), in); err != nil {
		return fmt.Errorf("register its interpreter with the BPF programs: %w", err)
	}
	return p.on.Set(true)
}

// life follows forks and execs.
func (p *pythons) life(e *event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid := int(e.PID)
	switch im := p.images[pid]; {
	case im.Image == nil:
	case e.Kind == event.Exec && im.found < e.Time:
		p.closeProbe(pid)
		delete(p.images, pid)
	case e.Kind == event.Fork && p.images[int(e.Child)].Image == nil && len(p.images) < maxPythonImages:
		p.images[int(e.Child)] = pythonImage{Image: im.Fork(python.Memory(int(e.Child))), found: e.Time}
	}
}

// forget drops what is known of process pid, which has ended.
func (p *pythons) forget(pid int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeProbe(pid)
	delete(p.images, pid)
	if err := p.kernel.Delete(uint32(pid)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("drop the interpreter of process %d: %w", pid, err)
	}
	return nil
}

// recordPython and pythonCut are RECORD_PYTHON and PYTHON_CUT of bpf/headers/python.h.
const (
	recordPython = 67
	pythonCut    = 1 << 31
)

// take reads the Python frames of a stack that is still to come; false means that the record is no such, or malformed.
func (p *pythons) take(record []byte) bool {
	const size = int(unsafe.Sizeof(bpf.MemtracePythonFrame{}))
	if len(record) < headSize {
		return false
	}
	h := (*bpf.MemtraceRecordHead)(unsafe.Pointer(&record[0]))
	n := int(h.Aux &^ pythonCut)
	if h.Kind != recordPython || n == 0 || n > (len(record)-headSize)/size {
		return false
	}
	frames := make([]python.Frame, n)
	for i, f := range unsafe.Slice((*bpf.MemtracePythonFrame)(unsafe.Pointer(&record[headSize])), n) {
		frames[i] = python.Frame{Code: f.Code, Lines: f.Lines, Others: f.Others, FirstLine: int32(f.FirstLine), At: int32(f.At), Enters: f.Enters != 0, Owner: uint8(f.Owner)}
	}
	if len(p.pending) >= maxPythonPending { // their stacks found no room
		clear(p.pending)
		clear(p.cut)
	}
	p.pending[event.StackID(h.Addr)] = frames
	if h.Aux&pythonCut != 0 {
		p.cut[event.StackID(h.Addr)] = true
	}
	return true
}

// weave puts the Python frames of a stack between its native ones.
func (p *pythons) weave(s *event.Stack) {
	frames := p.pending[s.ID]
	if frames == nil {
		return
	}
	if p.cut[s.ID] {
		s.Truncated, s.Deeper = true, true
	}
	delete(p.pending, s.ID)
	delete(p.cut, s.ID)
	p.mu.Lock()
	im := p.images[int(s.PID)].Image
	if im == nil {
		im = p.lookLocked(int(s.PID), listing{})
	}
	p.mu.Unlock()
	if im == nil {
		return
	}
	s.Frames = python.Interleave(s.Frames, frames, im.InLoop, func(to []uint64, f *python.Frame) []uint64 {
		name, shown := im.Name(f)
		if !shown {
			return to
		}
		return append(to, event.PythonFrames+p.names.Number(name))
	})
}

// PythonFrame returns what a frame of an event.Stack is called that is event.IsPython.
func (t *Tracer) PythonFrame(frame uint64) (python.Name, bool) {
	if !event.IsPython(frame) {
		return python.Name{}, false
	}
	return t.pythons.names.At(frame - event.PythonFrames)
}

// PythonProblems returns why the stacks of processes have no Python frames though they run a Python, one line a file.
func (t *Tracer) PythonProblems() []string {
	t.pythons.mu.Lock()
	defer t.pythons.mu.Unlock()
	return slices.Clone(t.pythons.notes)
}
