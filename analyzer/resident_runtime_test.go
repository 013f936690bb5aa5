//go:build linux && !viewer

package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/runtimemap"
)

// A runtime's parts of a mapping have the pages that lie in them and are resident, whether it is heap or not; what blocks lie in stays heap; and
// rss_by still adds up.
func TestPartsOfAMapping(t *testing.T) {
	const pages = 400
	for _, c := range []struct {
		name   string
		blocks []testBlock
		before bool // the mapping was there at the attach
		held   uint64
	}{
		{name: "no heap"},
		{"heap", []testBlock{{0, 100, 0}}, false, 0},
		{"heap from before the attach", []testBlock{{0, 100, 0}}, true, 0},
		{"a block in the part", []testBlock{{150 * pageBytes, pageBytes, 0}}, false, pageBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, addr := mapPages(t, pages)
			for page := range pages {
				if page%2 == 0 {
					mem[page*int(pageBytes)] = 1
				}
			}
			blocks := c.blocks
			for i := range blocks {
				blocks[i].addr += addr
			}
			var base *Baseline
			p := openSelf(t)
			if c.before {
				var err error
				if base, err = ReadBaseline(p); err != nil {
					t.Fatal(err)
				}
			}
			var r Residency
			r.layout.runtime.ranges = []runtimemap.Part{
				{Kind: "one", Start: addr + 100*pageBytes, End: addr + 200*pageBytes},
				{Kind: "two", Start: addr + 200*pageBytes, End: addr + 250*pageBytes},
				{Kind: "one", Start: addr + 300*pageBytes, End: addr + 310*pageBytes},
			}
			got, err := r.Measure(p, base, 1, yieldBlocks(blocks))
			if err != nil {
				t.Fatal(err)
			}
			want := []input.RuntimePart{{Name: "one", Mapped: 110 * pageBytes, Resident: 55 * pageBytes}, {Name: "two", Mapped: 50 * pageBytes, Resident: 25 * pageBytes}}
			if c.held != 0 { // what the block lies in is heap as a whole: the part from 100 to 200
				want[0] = input.RuntimePart{Name: "one", Mapped: 10 * pageBytes, Resident: 5 * pageBytes}
			}
			for i, part := range r.layout.runtime.found {
				if i >= len(want) || part != want[i] {
					t.Errorf("part %d is %+v, want %+v", i, part, want)
				}
			}
			if len(r.layout.runtime.found) != len(want) || got.RSSBy.Sum() != got.Usage.RSS {
				t.Errorf("%d parts; rss_by comes to %d of %d", len(r.layout.runtime.found), got.RSSBy.Sum(), got.Usage.RSS)
			}
		})
	}
}
