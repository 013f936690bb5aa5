package probe

import (
	"bytes"
	"debug/elf"
	"math"

	"github.com/memtrace/memtrace/tracer/event"
)

// poolUse is what a function has to do with a pool: a set of blocks that may
// end together without being named.
type poolUse struct {
	variable string       // of a PoolCurrent: which variable holds the pool
	change   event.Change // of a PoolChange
}

// distance is how far the variable lies from an instruction of the same file.
func (u poolUse) distance(variables map[string]uint64, from uint64) int64 {
	if u.variable == "" {
		return 0
	}
	return int64(variables[u.variable] - from)
}

// addVariable records a variable that some function of those asked for needs.
func (s *symbols) addVariable(raw rawSymbol, names []byte) {
	if len(s.asked.variables) == 0 || elf.ST_TYPE(raw.info) != elf.STT_OBJECT || raw.value > math.MaxInt64 || uint64(raw.name) >= uint64(len(names)) {
		return
	}
	name := names[raw.name:min(len(names), int(raw.name)+maxKnownName)]
	if end := bytes.IndexByte(name, 0); end > 0 && s.asked.variables[string(name[:end])] {
		if old, known := s.variables[string(name[:end])]; known && old != raw.value {
			raw.value = 0 // two of a name: nobody knows which is meant
		}
		s.variables[string(name[:end])] = raw.value
	}
}

// noVariable says why a function can't be probed without its variable.
func noVariable(u poolUse) string {
	return "no symbol of the file is the variable " + u.variable + ", which holds the pool"
}
