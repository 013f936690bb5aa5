package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// One kind of bytes is the profile's own, without the other.
func TestProfileOfAKind(t *testing.T) {
	a, address, _ := running(t, "interval: 1h")
	known(t, a, "x", told([]string{"leak"}, StackFigures{LiveBytes: 8192, LiveCount: 2, TouchedBytes: 12288, TouchedCount: 3}))
	for kind, want := range map[string][2]any{"live": {"inuse_space", int64(8192)}, "allocated": {"alloc_space", int64(12288)}} {
		_, body, _ := get(t, address+pprofPath+"?service=x&kind="+kind, "")
		p, err := profile.ParseData([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.SampleType) != 2 || p.DefaultSampleType != want[0] || p.SampleType[1].Type != want[0] || p.Sample[0].Value[1] != want[1] {
			t.Errorf("%s: %v", kind, p)
		}
	}
}

// A span is made of what each recording has of it; one that is not held is refused with what is.
func TestSpansOfRecordings(t *testing.T) {
	h, err := openHistory(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time {
		if minutes < 0 {
			return time.Time{}
		}
		return noon.Add(time.Duration(minutes) * time.Minute)
	}
	for _, begin := range []int{0, 30, 60} { // each has ten minutes
		file := recorded(t, h, "x", at(begin), 1)
		if err := os.Chtimes(file, at(begin+10), at(begin+10)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from, to int
		want     []time.Duration // how long each piece lasts; none: it is refused
	}{
		{0, 70, []time.Duration{10 * time.Minute, 10 * time.Minute, 10 * time.Minute}}, {5, 35, []time.Duration{5 * time.Minute, 5 * time.Minute}},
		{5, 8, []time.Duration{3 * time.Minute}}, {65, -1, []time.Duration{5 * time.Minute}}, {15, 25, nil}, {0, 71, nil}, {70, -1, nil}, {15, 31, []time.Duration{time.Minute}},
	} {
		pieces, err := h.pieces("x", at(c.from), at(c.to))
		if len(pieces) != len(c.want) || (err == nil) != (len(c.want) > 0) {
			t.Errorf("%d to %d: %v, %v", c.from, c.to, pieces, err)
			continue
		}
		for i, p := range pieces {
			if p.lasts != c.want[i] {
				t.Errorf("%d to %d: %v", c.from, c.to, pieces)
			}
		}
		if err != nil && (!errors.Is(err, errNotRecorded) || !strings.Contains(err.Error(), "held from 2026-11-27T12:00:00Z to 2026-11-27T13:10:00Z")) {
			t.Errorf("it doesn't say what is held: %v", err)
		}
	}
}

// Who asks for a span that is not held learns over HTTP what is.
func TestSpanThatIsNotHeld(t *testing.T) {
	a, address, _ := running(t, "interval: 1h")
	x := known(t, a, "x", told([]string{"leak"}, StackFigures{TouchedCount: 1}))
	recorded(t, x.history, "x", time.Now().Truncate(time.Second), 1)
	all, err := x.history.segments("x")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	for _, q := range []string{"&from=2001-01-01T00:00:00Z", "&at=2001-01-01T00:00:00Z"} {
		status, body, _ := get(t, address+pprofPath+"?service=x"+q, "")
		if status != 404 || !strings.Contains(body, "held from "+all[0].Begin.UTC().Format(time.RFC3339)+" to ") {
			t.Errorf("%s: %d %s", q, status, body)
		}
	}
}
