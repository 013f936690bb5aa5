package recording

import (
	"math"
	"os"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// TestPagesAreThoseOfTheTrace: one byte that was mapped is a page of the machine that was traced, whatever this one's are.
func TestPagesAreThoseOfTheTrace(t *testing.T) {
	for _, page := range []uint64{4 << 10, 16 << 10, 64 << 10} {
		c := ConfigOf(analyzer.Config{PageSize: page}, nil)
		if got, err := c.Analyzer(0, 0); err != nil || got.PageSize != page {
			t.Fatalf("a trace with pages of %d is read with pages of %d: %v", page, got.PageSize, err)
		}
		was := header
		header.Config.PageSize = page
		file := record(t, Options{}, input.Started{ProcessInfo: input.ProcessInfo{PID: 7}},
			&input.Events{Events: []event.Event{{Kind: event.Mmap, PID: 7, TID: 7, Addr: 1 << 20, Size: 1, Time: 2000, Stack: 1}}})
		header = was
		r, _, err := open(t, file).ReportAt(End, Rooms{}, analyzer.ReportOptions{Final: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Regions) != 1 || r.Regions[0].LiveBytes != page {
			t.Errorf("pages of %d: %+v", page, r.Regions)
		}
	}
	if c := ConfigOf(analyzer.Config{}, nil); c.PageSize != uint64(os.Getpagesize()) {
		t.Errorf("a trace of this machine says that its pages are %d bytes", c.PageSize)
	}
	for _, page := range []uint64{3, 4097, 1 << 40, math.MaxUint64} {
		if _, err := (&Config{PageSize: page}).Analyzer(0, 0); err == nil {
			t.Errorf("pages of %d bytes are taken", page)
		}
	}
}
