package analyzer

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"
	"testing/quick"
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/testdata/costtest"
)

// listedRuns is a pageSource of given runs.
type listedRuns []struct {
	start, end uint64
	state      procfs.PageState
}

func (l listedRuns) Runs(_, _ uint64, fn func(start, end uint64, state procfs.PageState)) error {
	for _, run := range l {
		fn(run.start, run.end, run.state)
	}
	return nil
}

func (l listedRuns) Close() error { return nil }

// FuzzPageStates compares the counts of bits with a plain list of pages.
func FuzzPageStates(f *testing.F) {
	f.Add([]byte{0, 3, 1, 9, 200, 2}, uint32(5), uint32(70_000))
	f.Add([]byte{255, 255, 1, 1, 255, 2, 7, 100, 1}, uint32(0), uint32(1<<23))
	f.Fuzz(func(t *testing.T, data []byte, lo, hi uint32) {
		defer costtest.Bound(t)()
		const pages = 2000
		m := mapping{start: 77 * pageBytes, end: (77 + pages) * pageBytes, rss: 1}
		var want [pages]procfs.PageState
		var runs listedRuns
		at := 0
		for ; len(data) >= 3; data = data[3:] {
			at += int(data[0])
			end, state := min(pages, at+int(data[1])), procfs.PagePresent+procfs.PageState(data[2]&1)
			if end <= at {
				break
			}
			for i := at; i < end; i++ {
				want[i] = state
			}
			runs = append(runs, struct {
				start, end uint64
				state      procfs.PageState
			}{m.start + uint64(at)*pageBytes, m.start + uint64(end)*pageBytes, state})
			at = end
		}
		var s pageStates
		s.reset()
		if !s.reserve(&m) {
			t.Fatal("no room")
		}
		if err := s.fill(&m, runs); err != nil {
			t.Fatal(err)
		}
		from, to := uint64(lo)%(pages*pageBytes), uint64(hi)%(pages*pageBytes)
		from, to = min(from, to), max(from, to)+1
		resident, swapped := s.count(&m, m.start+from, m.start+to)
		var wantResident, wantSwapped uint64
		for at := from; at < to; {
			end := min(to, at/pageBytes*pageBytes+pageBytes)
			switch want[at/pageBytes] {
			case procfs.PagePresent:
				wantResident += end - at
			case procfs.PageSwapped:
				wantSwapped += end - at
			}
			at = end
		}
		if resident != wantResident || swapped != wantSwapped {
			t.Errorf("from %d to %d: got %d, %d; want %d, %d", from, to, resident, swapped, wantResident, wantSwapped)
		}
	})
}

// TestMoreThanIsKept: an address space beyond the limit stays unknown, and
// costs no memory.
func TestMoreThanIsKept(t *testing.T) {
	m := mapping{start: 1 << 40, end: 1<<40 + maxChunkTable<<chunkShift + 1<<chunkShift, rss: 1}
	var s pageStates
	s.reset()
	if s.reserve(&m) || m.pages != pagesUnknown || len(s.table) != 0 {
		t.Errorf("state %d, %d entries", m.pages, len(s.table))
	}
	r := Residency{work: 10}
	if r.spend(0, 11<<chunkShift) || !r.spend(0, 10<<chunkShift) || r.spend(0, 1<<chunkShift) {
		t.Error("work was not bounded")
	}
}

func TestProportion(t *testing.T) {
	exact := func(n, part, rest uint32) bool {
		wide := uint64(n) << 24
		got := proportion(wide, uint64(part), uint64(rest))
		if part == 0 && rest == 0 {
			return got == 0
		}
		want := new(big.Int).Mul(new(big.Int).SetUint64(wide), big.NewInt(int64(part)))
		return want.Div(want, big.NewInt(int64(part)+int64(rest))).Uint64() == got
	}
	if err := quick.Check(exact, nil); err != nil {
		t.Error(err)
	}
	if got := proportion(math.MaxUint64, math.MaxUint64-1, 1); got != math.MaxUint64-1 {
		t.Errorf("got %d", got)
	}
}

// TestPace lets readings of ten seconds' cost in all take their turns.
func TestPace(t *testing.T) {
	var p Pace
	begin := time.Unix(1000, 0)
	now, read := begin, time.Duration(0)
	if !p.Ready(now) {
		t.Error("the first reading had to wait")
	}
	for i := range 100 {
		cost := time.Duration(binary.BigEndian.Uint16([]byte{byte(i), byte(i * 7)})) * time.Microsecond
		if now = p.Next(); now.Before(begin) {
			now = begin
		}
		now = now.Add(cost)
		read += cost
		p.Done(now, cost)
		if cost > 0 && p.Ready(now) {
			t.Fatal("no pause after a reading")
		}
	}
	if total := p.Next().Sub(begin); float64(read) > 0.02*float64(total)+1 {
		t.Errorf("read %v in %v", read, total)
	}
}

// TestPaceOfManyMappings: where listing them takes long, the first reading waits as well, and else it does not.
func TestPaceOfManyMappings(t *testing.T) {
	begin := time.Unix(1000, 0)
	for listing, waits := range map[time.Duration]bool{20 * time.Millisecond: false, time.Second: true} {
		var p Pace
		p.Expect(begin, listing)
		if p.Ready(begin.Add(time.Second)) == waits || !p.Ready(begin.Add(50*time.Second)) {
			t.Errorf("%v to list: the first reading has to wait until %v", listing, p.Next().Sub(begin))
		}
	}
}
