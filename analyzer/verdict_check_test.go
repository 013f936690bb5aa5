package analyzer

import (
	"slices"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/reach"
)

// leaksAt are definite leaks at the given addresses.
func leaksAt(addrs ...uint64) (out []reach.Leak) {
	for _, a := range addrs {
		out = append(out, reach.Leak{Addr: a, Size: 100, Site: 1, Kind: reach.Definite})
	}
	return out
}

// A process that runs is scanned until a scan disproves nothing: a pointer that
// was missed twice, as it was being moved, is not missed in the end.
func TestScansUntilTheyAgree(t *testing.T) {
	milder := leaksAt(1, 2)
	milder[0].Kind = reach.Possible
	for name, c := range map[string]struct {
		found [][]reach.Leak
		left  []reach.Leak
	}{
		"nothing leaks":             {[][]reach.Leak{nil, nil}, nil},
		"a leak, nothing moves":     {[][]reach.Leak{leaksAt(1), leaksAt(1)}, leaksAt(1)},
		"all disproved":             {[][]reach.Leak{leaksAt(1, 2, 3), leaksAt(4)}, nil},
		"missed twice":              {[][]reach.Leak{leaksAt(1, 2, 3), leaksAt(2), leaksAt(7)}, nil},
		"a leak among what moves":   {[][]reach.Leak{leaksAt(1, 2, 3, 4), leaksAt(1, 3, 9), leaksAt(1, 3)}, leaksAt(1, 3)},
		"a leak, found in the end":  {[][]reach.Leak{leaksAt(1, 2, 3, 4), leaksAt(1, 2, 3), leaksAt(1, 2), leaksAt(1, 4), leaksAt(1, 2, 3)}, leaksAt(1)},
		"a pointer into it is seen": {[][]reach.Leak{leaksAt(1, 2), milder, leaksAt(1, 2)}, milder},
	} {
		check := &Check{starts: time.Now()}
		for i, found := range c.found {
			if !check.GoesOn() {
				t.Errorf("%s: it ends after %d scans, want %d", name, i, len(c.found))
			}
			check.agree(found)
		}
		if check.GoesOn() {
			t.Errorf("%s: it goes on after %d scans", name, len(c.found))
		}
		if !slices.Equal(check.leaks, c.left) || check.Left() != len(c.left) {
			t.Errorf("%s: left are %v, want %v", name, check.leaks, c.left)
		}
	}
}

// What never agrees is not scanned for ever, and a heap that takes long to read
// three times at most.
func TestScansAreBounded(t *testing.T) {
	for want, starts := range map[int]time.Time{surely: time.Now().Add(-patience), maxScans: time.Now()} {
		check, addrs := &Check{starts: starts}, []uint64{}
		for a := range uint64(100) {
			addrs = append(addrs, a)
		}
		scans := 0
		for ; check.GoesOn() && scans < 100; scans++ {
			check.agree(leaksAt(addrs[scans:]...))
		}
		if scans != want {
			t.Errorf("%d scans of a process whose pointers never rest, want %d", scans, want)
		}
	}
}
