package procfs_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/memtrace/memtrace/procfs"
)

// TestNamesOfManyMappings: as many mappings as a process can have, with paths as
// long as they can be, cost what the different ones take, and no more than the room.
func TestNamesOfManyMappings(t *testing.T) {
	const mappings = 65_530
	long := bytes.Repeat([]byte("d"), 4096)
	for what, different := range map[string]bool{"one path": false, "a path each": true} {
		var n procfs.Names
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		names := make([]string, 0, mappings)
		for i := range mappings {
			if different {
				copy(long, fmt.Sprintf("/%08d/", i))
			}
			names = append(names, n.Of(long))
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 2*procfs.DefaultNameRoom {
			t.Errorf("%s: %d bytes were allocated", what, took)
		}
		kept := procfs.DefaultNameRoom / len(long)
		switch {
		case !different && (n.Cut != 0 || names[mappings-1] != string(long)):
			t.Errorf("%s: %d were cut", what, n.Cut)
		case different && (n.Cut != mappings-kept || names[kept-1][:10] != fmt.Sprintf("/%08d/", kept-1) || names[kept] != procfs.MoreNames):
			t.Errorf("%s: %d were cut, want %d", what, n.Cut, mappings-kept)
		}
	}
}
