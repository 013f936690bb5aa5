package analyzer

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A pageModel is what a regionMap should hold, page by page: nil where nothing
// is mapped.
type pageModel []*modelRegion

type modelRegion struct {
	site regionSiteID
	time uint64
}

func (p pageModel) remove(lo, hi, until uint64) (bytes uint64) {
	for i := lo; i < hi; i++ {
		if p[i] != nil && p[i].time <= until {
			p[i] = nil
			bytes++
		}
	}
	return bytes
}

// compare wants the map to hold the same pages, in order and without overlaps.
func (p pageModel) compare(m *regionMap) error {
	at := uint64(0)
	free := func(to uint64) error {
		for ; at < to; at++ {
			if p[at] != nil {
				return fmt.Errorf("page %d is free, and the model has it mapped", at)
			}
		}
		return nil
	}
	for r := range m.all {
		if r.start < at || r.end <= r.start {
			return fmt.Errorf("region %d-%d comes after %d", r.start, r.end, at)
		}
		if err := free(r.start); err != nil {
			return err
		}
		for ; at < r.end; at++ {
			if p[at] == nil || p[at].site != r.site || p[at].time != r.time {
				return fmt.Errorf("page %d belongs to site %d of time %d, the model has %+v", at, r.site, r.time, p[at])
			}
		}
	}
	return free(uint64(len(p)))
}

// shape checks what keeps the map fast and small.
func (m *regionMap) shape(limit int) error {
	n := 0
	for i, rs := range m.chunks {
		if len(rs) == 0 || len(rs) > regionChunk {
			return fmt.Errorf("chunk %d of %d has %d regions", i, len(m.chunks), len(rs))
		}
		n += len(rs)
	}
	if n+*m.room != limit {
		return fmt.Errorf("%d regions and room for %d, of %d in all", n, *m.room, limit)
	}
	return nil
}

// pieces is how many pieces are left of a region that had a part removed.
func pieces(p pageModel, r cutRegion) (n int) {
	for _, at := range []uint64{r.start - 1, r.end} {
		if at < uint64(len(p)) && p[at] != nil && p[at].time == r.time {
			n++
		}
	}
	return n
}

// TestRegionMapAgainstPages does to a regionMap and to an array of pages the
// same, at random, and compares them.
func TestRegionMapAgainstPages(t *testing.T) {
	const pages, limit = 4096, 1500
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 77))
		room := limit
		m, model := &regionMap{room: &room}, make(pageModel, pages)
		for step := range uint64(6000) {
			lo := rng.Uint64N(pages)
			hi := min(pages, lo+1+rng.Uint64N(1+pages>>rng.Uint64N(12)))
			until := step
			if rng.IntN(4) == 0 {
				until = rng.Uint64N(step + 1)
			}
			gone, dropped := m.remove(lo, hi, until)
			removed := model.remove(lo, hi, until)
			for _, r := range gone {
				if r.end > hi && dropped && room == 0 {
					removed += model.remove(hi, r.end, step)
				}
				if left := r.left; left != pieces(model, r) {
					t.Fatalf("seed %d, step %d: %d-%d left %d pieces of %+v", seed, step, lo, hi, left, r)
				}
				removed -= r.bytes()
			}
			if removed != 0 {
				t.Fatalf("seed %d, step %d: %d pages more than the map were removed", seed, step, int64(removed))
			}
			if until == step && rng.IntN(3) > 0 {
				r := region{start: lo, end: hi, time: step, site: regionSiteID(rng.Uint32N(50))}
				if m.add(r) {
					for i := lo; i < hi; i++ {
						model[i] = &modelRegion{r.site, r.time}
					}
				} else if room != 0 {
					t.Fatalf("seed %d, step %d: a region was refused with room for %d", seed, step, room)
				}
			}
			if err := m.shape(limit); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if step%64 == 0 {
				if err := model.compare(m); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				comparePieces(t, m, model, rng)
			}
		}
		if m.clear(); room != limit {
			t.Errorf("room for %d is left, want %d", room, limit)
		}
	}
}

// comparePieces goes through the pages by a cursor, and looks some up.
func comparePieces(t *testing.T, m *regionMap, model pageModel, rng *rand.Rand) {
	t.Helper()
	cursor := regionCursor{m: m}
	for at := uint64(0); at < uint64(len(model)); {
		end := min(uint64(len(model)), at+1+rng.Uint64N(40))
		r, to := cursor.piece(at, end)
		if to <= at || to > end {
			t.Fatalf("piece %d-%d ends at %d", at, end, to)
		}
		for ; at < to; at++ {
			if (r == nil) != (model[at] == nil) || r != nil && r.site != model[at].site {
				t.Fatalf("page %d: the cursor has %v", at, r)
			}
		}
	}
	for range 20 {
		at := rng.Uint64N(uint64(len(model)))
		if r := m.at(at); (r == nil) != (model[at] == nil) || r != nil && (at < r.start || at >= r.end) {
			t.Fatalf("page %d lies in %v", at, r)
		}
	}
}

// TestRegionMapStaysSmall: however a process maps and unmaps, the chunks are
// not many more than the regions need.
func TestRegionMapStaysSmall(t *testing.T) {
	const n = 100_000
	room := n
	m := &regionMap{room: &room}
	for i := range uint64(n) {
		if !m.add(region{start: 2 * i, end: 2*i + 1}) {
			t.Fatal("no room")
		}
	}
	for i := range uint64(n) { // leave one of 200
		if i%200 != 0 {
			m.remove(2*i, 2*i+1, 0)
		}
	}
	if err := m.shape(n); err != nil {
		t.Fatal(err)
	}
	if left := n - room; left != n/200 || len(m.chunks) > 2*left/regionMerge+2 {
		t.Errorf("%d regions are left in %d chunks", left, len(m.chunks))
	}
}

// BenchmarkRegionMap maps and unmaps among many regions.
func BenchmarkRegionMap(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			room := n + 1
			m := &regionMap{room: &room}
			for i := range uint64(n) {
				m.add(region{start: i << 14, end: i<<14 + 1<<13})
			}
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				at := rng.Uint64N(uint64(n)) << 14
				m.remove(at, at+1<<13, 1)
				m.add(region{start: at, end: at + 1<<13})
			}
		})
	}
}
