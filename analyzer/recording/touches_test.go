package recording

import (
	"encoding/json"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/testdata/costtest"
	"github.com/memtrace/memtrace/tracer/event"
)

// FuzzTouches: whatever a recording says of touched pages, what is kept of them stays within its room, and sums add up.
func FuzzTouches(f *testing.F) {
	const page, room = 4096, 1 << 18
	ranges := func(at ...uint64) (out []input.Range) {
		for i := 0; i < len(at); i += 2 {
			out = append(out, input.Range{Start: at[i] * page, End: at[i+1] * page})
		}
		return out
	}
	for _, in := range []input.Touches{
		{PID: 1, Gone: ranges(0, 5, 1<<20, 1<<21), Swapped: ranges(7, 9)},
		{PID: 1, Before: ranges(0, 1<<34), Explained: 1 << 60, BeforeBytes: 1<<64 - 1},
		{PID: 1, Along: []input.TouchedWith{
			{Range: ranges(6, 1<<30)[0], Site: 1<<32 - 1}, {Range: ranges(1<<31, 1<<32)[0], Site: 0},
		}},
		{PID: 2, Gone: ranges(9, 3, 0, 1<<51, 0, 1<<51), Swapped: ranges(0, 1<<51, 0, 1<<51)},
	} {
		_, b, err := encodeOther(in)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint64(3), uint64(page))
	}
	f.Fuzz(func(t *testing.T, b []byte, at, pageSize uint64) {
		defer costtest.Bound(t)()
		in, err := decodeOther(tagTouches, b)
		if err != nil {
			return
		}
		for _, mechanism := range []string{"perf", report.NoProbes} {
			a := analyzer.New(analyzer.Config{
				FollowForks: true, PageSize: pageSize, BlockRoom: room, SiteRoom: room, Tracer: report.TracerInfo{Attach: mechanism},
			})
			a.Take(input.Started{ProcessInfo: analyzer.ProcessInfo{PID: 1}})
			touch := func(pid uint32, flags event.Flags) {
				for i := range uint64(8) {
					a.Take(&input.Events{Events: []event.Event{{
						Kind: event.Fault, Time: i, PID: pid, TID: pid, Addr: (at + i*i) * pageSize,
						Stack: event.StackID(i%3 + 1), Flags: event.FaultTouch | flags,
					}}})
				}
			}
			touch(1, event.FaultWrite)
			a.Take(in)
			a.Take(&input.Events{Events: []event.Event{{Kind: event.Fork, Time: 9, PID: 1, TID: 1, Child: 2}}})
			touch(2, event.FaultWrite|event.FaultMapped)
			a.Take(in)
			touch(1, 0)
			a.Take(in)
			checkTouches(t, a.Report(analyzer.ReportOptions{}), pageSize)
			a.Close()
		}
	})
}

func checkTouches(t *testing.T, r *report.Report, pageSize uint64) {
	t.Helper()
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	for i := range r.Sites {
		if s := &r.Sites[i]; s.LiveBytes != s.LiveCount*pageSize || s.LiveCount > 1<<40 {
			t.Errorf("%+v", *s)
		}
	}
	f := r.Touched
	if f == nil {
		return
	}
	var held, touched uint64
	for _, s := range f.Sites {
		held, touched = held+s.Count, touched+s.TouchedCount
		if s.Count > s.TouchedCount {
			t.Errorf("a site holds more than it has touched: %+v", s)
		}
	}
	if held != f.Count || touched != f.TouchedCount || f.Bytes != f.Count*pageSize {
		t.Errorf("sites hold %d pages and have touched %d, all together %+v", held, touched, *f)
	}
}
