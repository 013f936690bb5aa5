package export

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/testdata/costtest"
)

// measured adds up what a Report has of a kind.
func measured(r *report.Report, k Kind) (bytes, count uint64) {
	s := Measure("x", r, k)
	for i := range s.Entries {
		bytes, count = bytes+s.Entries[i].Bytes.Value, count+s.Entries[i].Count.Value
	}
	return bytes, count
}

// TestMeasure has the figures of shop, summed up by hand.
func TestMeasure(t *testing.T) {
	for k, want := range map[Kind][2]uint64{
		Live: {3500, 4}, Peak: {4500, 0}, Allocated: {10_500, 11}, Freed: {7000, 7}, Temporary: {0, 5}, Leaked: {1600, 2}, Growing: {500, 0},
		Resident: {2048, 0}, Untouched: {700, 0}, Swapped: {252, 0}, Faults: {0, 11}, Mapped: {1 << 20, 2},
	} {
		if bytes, count := measured(shop(), k); bytes != want[0] || count != want[1] {
			t.Errorf("%s: %d B, %d, want %d", k, bytes, count, want)
		}
		if f := k.Figure(); f.Kind != string(k) || f.Bytes != (want[0] > 0) || f.Count != (want[1] > 0) {
			t.Errorf("%s is measured as %+v", k, f)
		}
	}
}

// What a Report leaves out is what its processes have beyond the sites that it lists.
func TestMeasureWhatIsNotListed(t *testing.T) {
	r := shop()
	r.Processes[0].Heap = report.Heap{LiveBytes: 3500, LiveCount: 4, AllocBytes: 10_500, AllocCount: 11, FreeCount: 7, TemporaryCount: 5,
		ResidentBytes: 2048, UntouchedBytes: 700, SwappedBytes: 252, CorrelatedNS: 1}
	r.Leaks = r.Leaks[:2]
	r.LimitSites(1)
	for k, want := range map[Kind][2]uint64{Live: {500, 1}, Allocated: {500, 1}, Freed: {0, 0}, Temporary: {0, 0}, Resident: {0, 0}, Untouched: {0, 0}, Swapped: {0, 0}} {
		s := Measure("x", r, k)
		rest := s.Entries[len(s.Entries)-1]
		if s.Omitted != 1 || s.Partial || rest.Site != nil || rest.Bytes.Value != want[0] || rest.Count.Value != want[1] {
			t.Errorf("%s: %d omitted, partial %v, the rest is %+v, want %d", k, s.Omitted, s.Partial, rest, want)
		}
	}
	for k, partial := range map[Kind]bool{Peak: true, Faults: true, Leaked: false, Growing: false, Mapped: false} {
		if s := Measure("x", r, k); s.Partial != partial || partial != (s.Omitted > 0) {
			t.Errorf("%s: %d omitted, partial %v", k, s.Omitted, s.Partial)
		}
	}
	r.RegionsMore = 4
	if s := Measure("x", r, Mapped); s.Omitted != 4 || !s.Partial {
		t.Errorf("mapped: %d omitted, partial %v", s.Omitted, s.Partial)
	}
}

func TestMeasureErrors(t *testing.T) {
	r := shop()
	r.Sites[0].Estimate = &report.Estimate{LiveBytesSE: 30, LiveCountSE: 3, AllocBytesSE: 40, AllocCountSE: 4, FreeCountSE: 5}
	r.Leaks[0].Estimate, r.Leaks[1].Estimate = &report.LeakEstimate{BytesSE: 6, CountSE: 3}, &report.LeakEstimate{BytesSE: 8, CountSE: 4}
	for k, want := range map[Kind][2]uint64{Live: {30, 3}, Allocated: {40, 4}, Freed: {0, 5}, Leaked: {10, 5}, Peak: {}, Resident: {}} { // √(6²+8²), √(3²+4²)
		if e := Measure("x", r, k).Entries[0]; e.Bytes.SE != want[0] || e.Count.SE != want[1] {
			t.Errorf("%s: errors %d and %d, want %d", k, e.Bytes.SE, e.Count.SE, want)
		}
	}
	// Of 50 in all, the site that is listed accounts for 30: √(50²-30²).
	r.Processes[0].Heap = report.Heap{LiveBytes: 9000, LiveCount: 9, Estimate: &report.Estimate{LiveBytesSE: 50, LiveCountSE: 5}}
	r.Leaks = nil
	r.LimitSites(1)
	s := Measure("x", r, Live)
	if rest := s.Entries[len(s.Entries)-1]; rest.Bytes != (compare.Measured{Value: 6000, SE: 40}) || rest.Count != (compare.Measured{Value: 6, SE: 4}) {
		t.Errorf("the rest is %+v", rest)
	}
}

// What a Report does not know is not 0.
func TestMeasureUnknown(t *testing.T) {
	r := shop()
	for k, want := range map[Kind]string{Live: "", Allocated: "", Leaked: "not checked for leaks", Resident: "was not read", Faults: "not traced"} {
		if got := Measure("x", r, k).Unknown; want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", k, got, want)
		}
	}
	r.Processes[0].LeakCheck, r.Processes[0].Heap.CorrelatedNS, r.Tracer.Faults = &report.LeakCheck{}, 5, "kprobe"
	for _, k := range []Kind{Leaked, Resident, Faults} {
		if got := Measure("x", r, k).Unknown; got != "" {
			t.Errorf("%s: %q", k, got)
		}
	}
	r.Tracer.Attach = report.NotTraced
	if got := Measure("x", r, Allocated).Unknown; !strings.Contains(got, "without a trace") {
		t.Errorf("allocated of a process that was not traced: %q", got)
	}
}

// Two Reports of one program, and the same one twice.
func TestCompareReports(t *testing.T) {
	after := shop()
	after.Sites[0].LiveBytes, after.Sites[1].LiveBytes = 3200, 100 // by 200 and -400
	after.Regions[0].LiveBytes = 3 << 20
	for k, want := range map[Kind][2]uint64{Live: {200, 400}, Mapped: {2 << 20, 0}, Allocated: {0, 0}} {
		d, err := compare.Compare(k.Figure(), Measure("a", shop(), k), Measure("b", after, k), "site")
		if err != nil {
			t.Fatal(err)
		}
		if of := d.Figure.Of(&d.Total); of.Grown != want[0] || of.Shrunk != want[1] {
			t.Errorf("%s grew by %d and shrank by %d, want %d", k, of.Grown, of.Shrunk, want)
		}
	}
}

// FuzzCompare compares a Report from elsewhere with one that lists less of it.
func FuzzCompare(f *testing.F) {
	for _, name := range []string{"service", "untraced"} {
		var out bytes.Buffer
		if err := render.Write(&out, fixture(f, name), render.Options{Format: render.JSON, Compact: true}); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Add([]byte(`{"schema":"memtrace.report/1","sites":[{"id":1,"function_frame":-9,"live_bytes":18446744073709551615,"stack":[{}]},{"process":7,"merged_ids":[1]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer costtest.Bound(t)()
		r, _, err := Read(bytes.NewReader(text), 1<<20)
		if err != nil {
			return
		}
		less := *r
		less.Limit(1)
		for i, k := range kinds {
			by := compare.Groupings()[i%len(compare.Groupings())]
			d, err := compare.Compare(k.kind.Figure(), Measure("a", r, k.kind), Measure("b", &less, k.kind), by)
			if err != nil {
				continue // figures that no memory has
			}
			shown, rest := d.First(d.Rows, 1)
			for j := range shown {
				rest.Add(&shown[j].Sum)
			}
			if rest.Bytes.Change() != d.Total.Bytes.Change() || rest.Count.Change() != d.Total.Count.Change() {
				t.Errorf("%s by %s: rows changed by %d, the total by %d", k.kind, by, rest.Bytes.Change(), d.Total.Bytes.Change())
			}
			for _, format := range render.ComparisonFormats() {
				if err := render.WriteComparison(io.Discard, d, render.ComparisonOptions{Format: render.Format(format), Width: 40 * (i % 4), Top: i % 3, Stacks: 2, Frames: 3}); err != nil {
					t.Errorf("%s: %v", format, err)
				}
			}
		}
	})
}
