//go:build linux && !viewer

package runtimemap

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Kinds of a JVM's Parts.
const (
	JavaHeap  = "Java heap"
	Metaspace = "metaspace" // with the class space
	CodeCache = "code cache"
	CardTable = "card table" // of the garbage collector
)

const (
	// maxCodeHeaps bounds the parts of a code cache; OpenJDK has three at most.
	maxCodeHeaps = 16
	// jvmRoom bounds what finding the table of structures reads, metaspaceRoom what a walk of the classes reads; bytes.
	jvmRoom, metaspaceRoom = 8 << 20, 256 << 20
	// heapWord is HotSpot's unit of a MemRegion's size.
	heapWord = 8
	// elasticMetaspace is the first version that lays metaspace out as metaspace.go expects it (JEP 387).
	elasticMetaspace = 16
)

type jvm struct {
	memory  memory
	structs vmStructs
	version string
	major   int32
	// flagSize is that of an entry of the table of flags, in bytes; 0: not known.
	flagSize uint64

	metaspace []Part // of the last walk
	cut       error  // why that did not find all
	walked    time.Time
	rest      time.Duration // before the next walk
}

// openJVM finds the structures of the libjvm.so whose first byte is mapped at base in process pid.
func openJVM(pid int, base uint64, file io.ReaderAt) (*jvm, error) {
	symbols, err := findSymbols(file)
	if err != nil {
		return nil, err
	}
	j := &jvm{memory: memory{pid: pid}}
	j.memory.clear(jvmRoom)
	defer j.memory.forget()
	if j.structs, err = readStructs(&j.memory, symbols, base); err != nil {
		return nil, err
	}
	if j.structs.has("Abstract_VM_Version", "_s_vm_release") {
		j.version = j.memory.text(j.static("Abstract_VM_Version", "_s_vm_release"), maxNameBytes)
	}
	if j.structs.has("Abstract_VM_Version", "_vm_major_version") {
		j.major = j.memory.int32(j.structs.of("Abstract_VM_Version", "_vm_major_version"))
	}
	j.flagSize = sizeOf(&j.memory, symbols, base, "JVMFlag")
	return j, j.memory.err
}

func (j *jvm) static(structure, name string) uint64 {
	return j.memory.word(j.structs.of(structure, name))
}

func (j *jvm) name() string { return "java" }

// errStarting: a JVM has mapped its library, and not its heap.
var errStarting = errors.New("the JVM has no heap yet")

func (j *jvm) parts([]area) ([]Part, error) {
	j.memory.clear(jvmRoom)
	defer j.memory.forget()
	heap := j.static("Universe", "_collectedHeap")
	if j.memory.err == nil && heap == 0 {
		return nil, errStarting
	}
	out := []Part{j.region(JavaHeap, heap+j.structs.of("CollectedHeap", "_reserved"))}
	out = append(append(out, j.codeCache()...), j.cardTable(out[0])...)
	if j.memory.err != nil {
		return nil, fmt.Errorf("read the JVM's structures: %w", j.memory.err)
	}
	return append(out, j.classes()...), j.cut
}

// region reads a MemRegion.
func (j *jvm) region(kind string, at uint64) Part {
	start, words := j.memory.word(at), j.memory.word(at+heapWord)
	return Part{Kind: kind, Start: start, End: start + words*heapWord}
}

// codeCache is what holds compiled code, each part with the map of its segments.
func (j *jvm) codeCache() (out []Part) {
	m, s := &j.memory, j.structs
	heaps := j.static("CodeCache", "_heaps")
	if heaps == 0 {
		return nil
	}
	data := m.word(heaps + s.of("GrowableArray<int>", "_data"))
	n := m.int32(heaps + s.of("GrowableArrayBase", "_len"))
	if m.err == nil && (n < 0 || n > maxCodeHeaps) {
		m.err = fmt.Errorf("its code cache would have %d parts", n)
		return nil
	}
	for i := range n {
		heap := m.word(data + uint64(i)*8)
		for _, space := range []string{"_memory", "_segmap"} {
			at := heap + s.of("CodeHeap", space)
			out = append(out, Part{Kind: CodeCache, Start: m.word(at + s.of("VirtualSpace", "_low_boundary")), End: m.word(at + s.of("VirtualSpace", "_high_boundary"))})
		}
	}
	return out
}

// cardTable is that of a collector that has one: then it says for which heap it is, and that is the JVM's.
func (j *jvm) cardTable(heap Part) []Part {
	m, s := &j.memory, j.structs
	for _, f := range []vmField{{"BarrierSet", "_barrier_set"}, {"CardTableBarrierSet", "_card_table"}, {"CardTable", "_whole_heap"}, {"CardTable", "_byte_map"}, {"CardTable", "_byte_map_size"}} {
		if !s.has(f.structure, f.name) {
			return nil
		}
	}
	failed := m.err
	defer func() { m.err = failed }() // a barrier set of another kind may lead nowhere
	set := j.static("BarrierSet", "_barrier_set")
	table := m.word(set + s.of("CardTableBarrierSet", "_card_table"))
	if set == 0 || table == 0 || j.region("", table+s.of("CardTable", "_whole_heap")) != (Part{Start: heap.Start, End: heap.End}) {
		return nil
	}
	start := m.word(table + s.of("CardTable", "_byte_map"))
	size := m.word(table + s.of("CardTable", "_byte_map_size"))
	if m.err != nil {
		return nil
	}
	return []Part{{Kind: CardTable, Start: start, End: start + (size+pageSize-1)&^(pageSize-1)}}
}
