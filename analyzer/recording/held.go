package recording

import (
	"fmt"
	"unsafe"

	"github.com/memtrace/memtrace/analyzer/input"
)

// maxHeld is what the lists and names that an analyzer keeps of a recording's processes may take in memory, in bytes.
// The rooms for sites and blocks don't count them, and a few kilobytes of a file may have gigabytes of them.
const maxHeld = 256 << 20

// unnoticed is how much one input may have without being counted: nearly all have less.
const unnoticed = 64 << 10

// holdings is what an analyzer keeps of lists and names.
type holdings struct {
	sum   uint64
	names uint64             // of stacks
	last  map[reading]uint64 // of PIDs' last programs: what the next reading replaces
}

// A reading is what is read of a process again and again: its memory, or its Go heap.
type reading struct {
	pid    uint32
	goHeap bool
}

// add counts what is kept of an input.
func (h *holdings) add(in input.Input) error {
	switch v := in.(type) {
	case input.Started:
		delete(h.last, reading{pid: v.PID}) // it may be of a program that has ended, and is shown still
		delete(h.last, reading{pid: v.PID, goHeap: true})
		h.sum += noticed(infoBytes(&v.ProcessInfo))
	case input.Described:
		h.sum += noticed(infoBytes(&v.ProcessInfo))
	case input.GoStacks:
		h.sum += goStackBytes(&v)
	case input.PoolName:
		h.sum += noticed(uint64(len(v.Name)))
	case input.Memory:
		h.replace(reading{pid: v.PID}, noticed(mappingBytes(v.Mappings)+runtimeBytes(v.Runtime)))
	case input.GoHeap:
		h.replace(reading{pid: v.PID, goHeap: true}, noticed(uint64(len(v.Problem)+len(v.Version)+len(v.FoundBy))))
	}
	if h.sum > maxHeld {
		return fmt.Errorf("%w: descriptions of processes that take more than %d MiB", ErrImpossible, maxHeld>>20)
	}
	return nil
}

// replace counts a reading, in the place of the one before.
func (h *holdings) replace(of reading, n uint64) {
	if n|h.last[of] == 0 {
		return
	}
	if h.last == nil {
		h.last = make(map[reading]uint64)
	}
	h.sum += n - h.last[of]
	h.last[of] = n
}

// hasRoom counts the names of a stack, and of the frames that came with it, in bytes in memory. It reports
// whether they are to be kept: what a file names need not be a stack that the analyzer has counted.
func (h *holdings) hasRoom(v *input.Names, frames int) bool {
	const stack, pointer = 128, 8
	h.names += stack + pointer*uint64(len(v.Frames)) + uint64(frames)
	return h.names <= maxHeld
}

func noticed(n uint64) uint64 {
	if n <= unnoticed {
		return 0
	}
	return n
}

func infoBytes(p *input.ProcessInfo) uint64 {
	return uint64(len(p.InnerPIDs))*uint64(unsafe.Sizeof(0)) + uint64(len(p.Comm)+len(p.Exe)) + textBytes(p.Allocators) + textBytes(p.Untraced)
}

func textBytes(texts []string) (n uint64) {
	for _, t := range texts {
		n += uint64(len(t)) + uint64(unsafe.Sizeof(t))
	}
	return n
}

// goStackBytes counts all: stacks are kept for good, and come in many small inputs.
func goStackBytes(v *input.GoStacks) (n uint64) {
	for i := range v.Stacks {
		for _, f := range v.Stacks[i].Frames {
			if f != nil {
				n += uint64(len(f.Function)+len(f.Mangled)+len(f.File)+len(f.Module)+len(f.BuildID)) + uint64(unsafe.Sizeof(*f))
			}
		}
	}
	return n
}

func mappingBytes(mappings []input.Mapping) (n uint64) {
	for i := range mappings {
		n += uint64(len(mappings[i].Name)+len(mappings[i].Perms)) + uint64(unsafe.Sizeof(mappings[i]))
	}
	return n
}

func runtimeBytes(r *input.Runtime) (n uint64) {
	if r == nil {
		return 0
	}
	n = uint64(len(r.Name)+len(r.Version)+len(r.Problem)) + uint64(unsafe.Sizeof(*r))
	for i := range r.Parts {
		n += uint64(len(r.Parts[i].Name)) + uint64(unsafe.Sizeof(r.Parts[i]))
	}
	return n
}
