package tracer

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/memtrace/memtrace/bpf"
)

// Unwinder is how call stacks are taken.
type Unwinder string

const (
	// UnwindAuto takes the best that there is.
	UnwindAuto Unwinder = "auto"
	// UnwindDwarf follows .eh_frame, and frame pointers where a frame has none.
	UnwindDwarf Unwinder = "dwarf"
	// UnwindFP follows frame pointers: right only where all code keeps them.
	UnwindFP Unwinder = "fp"
	// UnwindNone takes no stacks.
	UnwindNone Unwinder = "none"
)

// resolveUnwind replaces "auto".
func (c Config) resolveUnwind() (Config, error) {
	switch c.Unwind {
	case "", UnwindAuto:
		c.Unwind = UnwindDwarf
	case UnwindNone:
		c.StackDepth = 0
	case UnwindDwarf, UnwindFP:
	default:
		return c, fmt.Errorf("unknown way to unwind %q: want auto, dwarf, fp or none", c.Unwind)
	}
	if c.StackDepth == 0 {
		c.Unwind = UnwindNone
	}
	return c, nil
}

// withoutTables keeps the maps of the tables from taking memory.
func withoutTables(spec *ebpf.CollectionSpec) {
	for _, name := range []string{
		bpf.MemtraceMapSpaces, bpf.MemtraceMapSegments, bpf.MemtraceMapTables,
		bpf.MemtraceMapRules, bpf.MemtraceMapPcCache, bpf.MemtraceMapStale,
		bpf.MemtraceMapStoppable,
	} {
		spec.Maps[name].MaxEntries = 1
	}
}

// plainTables takes the type information from the tables' template, as the
// tables themselves have none: 6.1 refuses a table that differs in this
// (EINVAL); 5.10, 6.12 and 6.18 don't mind.
func plainTables(spec *ebpf.CollectionSpec) {
	inner := spec.Maps[bpf.MemtraceMapTables].InnerMap
	inner.Key, inner.Value = nil, nil
}
