package tracer

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/memtrace/memtrace/bpf"
)

// ringSizes is what a CPU's rings hold.
type ringSizes struct {
	records int // of the event ring; 0 where the kernel lacks what it takes
	buffer  int // bytes of the kernel's ring buffer
	wake    int // how many of these wait before the reader is woken
}

const (
	// wakeBytes wait in a ring before the reader is woken, or a quarter of a
	// small ring: waking it, and its going to sleep, cost as much as a thousand events.
	wakeBytes = 2 << 20
	// stackShare of the memory is the ring buffer's, where that has only
	// stacks and the life of processes in it. Of these it is woken for less: a
	// compiler that begins with its templates makes megabytes of new stacks in
	// the time that a reader may have to wait for a processor.
	stackShare    = 2
	stackWake     = 512 << 10
	leastRingSize = 64 << 10
)

// wakeAt is how much of a ring's size waits before the reader is woken.
func wakeAt(size int) int { return min(wakeBytes, size/4) }

// shapeRings sizes the rings' maps. size is bytes a CPU, 0 for the default.
func (k *kernelHalf) shapeRings(size int, atomics bool) error {
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the CPUs: %w", err)
	}
	online, err := onlineCPUs()
	if err != nil {
		return err
	}
	if size == 0 {
		size = ringBytes(len(online))
	}
	if size < leastRingSize || size&(size-1) != 0 {
		return fmt.Errorf("rings of %d bytes a CPU: not a power of two from %d on", size, leastRingSize)
	}
	k.sizes = ringSizes{buffer: size, wake: wakeAt(size)}
	if atomics {
		buffer := max(size/stackShare, leastRingSize)
		k.sizes = ringSizes{records: size / lineSize, buffer: buffer, wake: min(stackWake, wakeAt(buffer))}
	}
	k.spec.Maps[bpf.MemtraceMapRings].MaxEntries = uint32(possible)
	events := k.spec.Maps[bpf.MemtraceMapEventRings]
	events.MaxEntries = uint32(possible)
	events.InnerMap.MaxEntries = uint32(bpf.MemtraceRingLayoutRING_RECORDS) + uint32(max(k.sizes.records, 1))
	k.spec.Maps[bpf.MemtraceMapScratches].MaxEntries *= uint32(possible)
	return nil
}

// withoutAtomics takes out of the programs what the kernel's verifier refuses
// even where it can't be reached.
func withoutAtomics(spec *ebpf.CollectionSpec) {
	for _, program := range spec.Programs {
		for i, ins := range program.Instructions {
			switch ins.OpCode.AtomicOp() {
			case asm.InvalidAtomic, asm.AddAtomic:
			default:
				program.Instructions[i] = asm.Mov.Imm(ins.Src, 0).WithMetadata(ins.Metadata)
			}
		}
	}
}
