//go:build linux && !viewer

package runtimemap

import (
	"debug/elf"
	"fmt"
	"io"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// Bounds of HotSpot's table; OpenJDK 17 has 788 entries of 48 bytes.
const (
	maxEntries, maxStride = 1 << 14, 1 << 10
	maxNameBytes          = 128
)

// vmStructs is HotSpot's description of its own structures, for debuggers (src/hotspot/share/runtime/vmStructs.hpp): offsets of
// fields, and addresses of static ones.
type vmStructs map[vmField]uint64

type vmField struct{ structure, name string }

// vmFields are those that are looked up, by whether a JVM must have them.
var vmFields = map[vmField]bool{
	{"Universe", "_collectedHeap"}:               true,
	{"CollectedHeap", "_reserved"}:               true,
	{"CodeCache", "_heaps"}:                      true,
	{"GrowableArrayBase", "_len"}:                true,
	{"GrowableArray<int>", "_data"}:              true,
	{"CodeHeap", "_memory"}:                      true,
	{"CodeHeap", "_segmap"}:                      true,
	{"VirtualSpace", "_low_boundary"}:            true,
	{"VirtualSpace", "_high_boundary"}:           true,
	{"ClassLoaderDataGraph", "_head"}:            true,
	{"ClassLoaderData", "_next"}:                 true,
	{"ClassLoaderData", "_klasses"}:              true,
	{"Klass", "_next_link"}:                      true,
	{"Klass", "_layout_helper"}:                  true,
	{"InstanceKlass", "_constants"}:              true,
	{"ConstantPool", "_pool_holder"}:             true,
	{"Abstract_VM_Version", "_s_vm_release"}:     false,
	{"Abstract_VM_Version", "_vm_major_version"}: false,
	{"BarrierSet", "_barrier_set"}:               false,
	{"JVMFlag", "flags"}:                         false,
	{"JVMFlag", "numFlags"}:                      false,
	{"JVMFlag", "_name"}:                         false,
	{"JVMFlag", "_addr"}:                         false,
	{"CardTableBarrierSet", "_card_table"}:       false,
	{"CardTable", "_whole_heap"}:                 false,
	{"CardTable", "_byte_map"}:                   false,
	{"CardTable", "_byte_map_size"}:              false,
}

// vmSymbols say where the table and the fields of its entries are; and the same of the table of types.
var vmSymbols = []string{
	"gHotSpotVMStructs", "gHotSpotVMStructEntryTypeNameOffset", "gHotSpotVMStructEntryFieldNameOffset", "gHotSpotVMStructEntryIsStaticOffset",
	"gHotSpotVMStructEntryOffsetOffset", "gHotSpotVMStructEntryAddressOffset", "gHotSpotVMStructEntryArrayStride",
	"gHotSpotVMTypes", "gHotSpotVMTypeEntryTypeNameOffset", "gHotSpotVMTypeEntrySizeOffset", "gHotSpotVMTypeEntryArrayStride",
}

// findSymbols returns the addresses of vmSymbols, and that at which the file's code begins, as the file has them.
func findSymbols(r io.ReaderAt) (found map[string]uint64, err error) {
	f, err := debugfile.ReadELF(r)
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("it is no 64-bit little-endian library")
	}
	found = make(map[string]uint64)
	for _, s := range debugfile.FindSymbols(f, vmSymbols...) {
		found[s.Name] = s.Value
	}
	for _, name := range vmSymbols {
		if found[name] == 0 {
			return nil, fmt.Errorf("it has no symbol %s", name)
		}
	}
	return found, nil
}

// readStructs reads the table of a process; bias is the difference of addresses there to those in the file.
func readStructs(m *memory, symbols map[string]uint64, bias uint64) (vmStructs, error) {
	value := func(i int) uint64 { return m.word(symbols[vmSymbols[i]] + bias) }
	table, stride := value(0), value(6)
	if m.err == nil && (stride == 0 || stride > maxStride) {
		return nil, fmt.Errorf("entries of its table of structures have %d bytes", stride)
	}
	typeName, fieldName, isStatic, offset, address := value(1), value(2), value(3), value(4), value(5)
	out := make(vmStructs)
	for i := uint64(0); i < maxEntries && m.err == nil; i++ {
		at := table + i*stride
		name := m.word(at + typeName)
		if name == 0 {
			break
		}
		field := vmField{m.text(name, maxNameBytes), m.text(m.word(at+fieldName), maxNameBytes)}
		if _, wanted := vmFields[field]; !wanted {
			continue
		}
		if m.int32(at+isStatic) != 0 {
			out[field] = m.word(at + address)
		} else {
			out[field] = m.word(at + offset)
		}
	}
	if m.err != nil {
		return nil, m.err
	}
	for field, needed := range vmFields {
		if _, ok := out[field]; needed && !ok {
			return nil, fmt.Errorf("its table of structures has no %s::%s", field.structure, field.name)
		}
	}
	return out, nil
}

// has reports whether the JVM has a field.
func (s vmStructs) has(structure, name string) bool {
	_, ok := s[vmField{structure, name}]
	return ok
}

// of is the offset of a field, or the address of a static one.
func (s vmStructs) of(structure, name string) uint64 { return s[vmField{structure, name}] }

// sizeOf is how many bytes a type of the JVM's has; 0 where the table of types does not tell.
func sizeOf(m *memory, symbols map[string]uint64, bias uint64, name string) uint64 {
	value := func(i int) uint64 { return m.word(symbols[vmSymbols[i]] + bias) }
	table, typeName, size, stride := value(7), value(8), value(9), value(10)
	if stride == 0 || stride > maxStride {
		return 0
	}
	for i := uint64(0); i < maxEntries && m.err == nil; i++ {
		at := table + i*stride
		found := m.word(at + typeName)
		if found == 0 {
			break
		}
		if m.text(found, maxNameBytes) == name {
			return m.word(at + size)
		}
	}
	return 0
}
