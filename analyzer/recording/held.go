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
	names uint64            // of stacks
	last  map[uint32]uint64 // of a PID's last program: its reading, which the next one replaces
}

// add counts what is kept of an input.
func (h *holdings) add(in input.Input) error {
	switch v := in.(type) {
	case input.Started:
		delete(h.last, v.PID) // the reading may be of a program that has ended, and is shown still
		h.sum += noticed(infoBytes(&v.ProcessInfo))
	case input.Described:
		h.sum += noticed(infoBytes(&v.ProcessInfo))
	case input.GoStacks:
		h.sum += goStackBytes(&v)
	case input.PoolName:
		h.sum += noticed(uint64(len(v.Name)))
	case input.Memory:
		n := noticed(mappingBytes(v.Mappings))
		if n|h.last[v.PID] == 0 {
			return nil
		}
		if h.last == nil {
			h.last = make(map[uint32]uint64)
		}
		h.sum += n - h.last[v.PID]
		h.last[v.PID] = n
	}
	if h.sum > maxHeld {
		return fmt.Errorf("%w: descriptions of processes that take more than %d MiB", ErrImpossible, maxHeld>>20)
	}
	return nil
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
