package export

import (
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// change is one stack in two Reports.
type change struct {
	path          []step
	before, after uint64
}

func (c *change) grown() uint64  { return less(c.after, c.before) }
func (c *change) shrunk() uint64 { return less(c.before, c.after) }

// difference matches the stacks of two Reports by their functions, whatever their
// PIDs, addresses and lines are.
func difference(before, after *report.Report, k Kind) []change {
	index := make(map[string]int)
	var out []change
	take := func(r *report.Report, side func(*change) *uint64) {
		stacks := stacksOf(r)
		for i := range stacks {
			v := stacks[i].weights[k.index()].figure(k)
			if v == 0 {
				continue
			}
			path := stacks[i].path(false)
			key := pathKey(path)
			at, ok := index[key]
			if !ok {
				at = len(out)
				index[key] = at
				out = append(out, change{path: path})
			}
			sum := side(&out[at])
			*sum = add(*sum, v)
		}
	}
	take(before, func(c *change) *uint64 { return &c.before })
	take(after, func(c *change) *uint64 { return &c.after })
	return slices.DeleteFunc(out, func(c change) bool { return c.before == 0 && c.after == 0 })
}

// pathKey joins names by a character that none of them has: control characters are
// written as escapes by then. Modules are left out, as versions of libraries differ in theirs.
func pathKey(path []step) string {
	var key strings.Builder
	for _, s := range path {
		key.WriteString(s.label)
		key.WriteByte(0)
	}
	return key.String()
}
