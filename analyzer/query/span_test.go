package query

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// naiveSpan are the figures of a span by the model, by group.
func (n *naiveTrace) naiveSpan(from, to uint64, groupOf func(*naiveBlock) string) map[string]SpanFigures {
	out := make(map[string]SpanFigures)
	for _, b := range n.all {
		ended := !b.live && b.ended <= to
		if b.born > to || ended && b.ended <= from {
			continue
		}
		f := out[groupOf(b)]
		switch born := b.born > from; {
		case born && ended:
			f.ChurnedCount, f.ChurnedBytes = f.ChurnedCount+1, f.ChurnedBytes+b.size
			fallthrough
		case born:
			f.BornCount, f.BornBytes = f.BornCount+1, f.BornBytes+b.size
		default:
			f.BeforeCount, f.BeforeBytes = f.BeforeCount+1, f.BeforeBytes+b.size
		}
		if b.born > from && !ended {
			f.SurvivedCount, f.SurvivedBytes = f.SurvivedCount+1, f.SurvivedBytes+b.size
		}
		if ended {
			f.EndedCount, f.EndedBytes = f.EndedCount+1, f.EndedBytes+b.size
			if b.endedBy != "exec" {
				f.FreedCount++
			}
		} else {
			f.LiveCount, f.LiveBytes = f.LiveCount+1, f.LiveBytes+b.size
		}
		out[groupOf(b)] = f
	}
	return out
}

// What a span says of random traces is what a count of their blocks gives.
func TestSpanAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		n := newNaiveTrace(t, 40+seed, 3000)
		for range 8 {
			from := 1 + n.r.Uint64N(n.end-1)
			to := from + n.r.Uint64N(n.end-from+1)
			for by, groupOf := range map[string]func(*naiveBlock) string{
				"function": func(b *naiveBlock) string { return stackNames(b.stack)[0] },
				"module":   func(b *naiveBlock) string { return moduleOf(b.stack) },
				"pid":      func(b *naiveBlock) string { return fmt.Sprint(b.pid) },
				"thread":   func(b *naiveBlock) string { return fmt.Sprint(b.thread) },
			} {
				got, err := RunSpan(n.source(), SpanOptions{From: from, To: to, By: by})
				if err != nil {
					t.Fatal(err)
				}
				want := n.naiveSpan(from, to, groupOf)
				for _, g := range got.Groups {
					if g.SpanFigures != want[g.Key] {
						t.Fatalf("seed %d, from %d to %d, %s %s: %+v, want %+v", seed, from, to, by, g.Key, g.SpanFigures, want[g.Key])
					}
				}
				if len(got.Groups) != len(want) {
					t.Fatalf("seed %d: %d groups by %s, want %d", seed, len(got.Groups), by, len(want))
				}
				if total := n.naiveSpan(from, to, func(*naiveBlock) string { return "" })[""]; got.Total != total {
					t.Fatalf("seed %d: in all %+v, want %+v", seed, got.Total, total)
				}
			}
		}
	}
}

// Groups that are not listed are summed up, in the order that is asked for.
func TestSpanLimit(t *testing.T) {
	t.Parallel()
	n := newNaiveTrace(t, 50, 2000)
	all, err := RunSpan(n.source(), SpanOptions{From: n.end / 2, By: "function", Order: "survived"})
	if err != nil {
		t.Fatal(err)
	}
	some, err := RunSpan(n.source(), SpanOptions{From: n.end / 2, By: "function", Order: "survived", Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(some.Groups) != 2 || int(some.Omitted) != len(all.Groups)-2 || some.Total != all.Total {
		t.Fatalf("%d groups and %d more of %d", len(some.Groups), some.Omitted, len(all.Groups))
	}
	rest := uint64(0)
	for i, g := range all.Groups {
		if i > 0 && g.SurvivedBytes > all.Groups[i-1].SurvivedBytes {
			t.Errorf("%s stands after %s", g.Key, all.Groups[i-1].Key)
		}
		if i >= 2 {
			rest += g.BornBytes
		}
	}
	if some.Rest.BornBytes != rest {
		t.Errorf("%d bytes in the rest, want %d", some.Rest.BornBytes, rest)
	}
	var out strings.Builder
	if err := all.Write(&out, "csv", 0); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil || len(rows) != 1+len(all.Groups) || strings.Join(rows[0][:3], ",") != "before_bytes,before_count,born_bytes" {
		t.Errorf("%v: %q", err, rows)
	}
}

// What can't be is refused.
func TestSpanOptions(t *testing.T) {
	t.Parallel()
	n := newNaiveTrace(t, 51, 10)
	for _, o := range []SpanOptions{{By: None}, {By: "colour"}, {Order: "bytes"}, {From: 5, To: 4}, {Limit: -1}} {
		if _, err := RunSpan(n.source(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// A span says what its figures lack, as other answers do.
func TestSpanHasNotes(t *testing.T) {
	t.Parallel()
	n := newNaiveTrace(t, 52, 500)
	everything, err := Compile("")
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"leak", "function"} {
		res, err := Run(n.source(), everything, Options{From: 1, By: by})
		if err != nil {
			t.Fatal(err)
		}
		span, err := RunSpan(n.source(), SpanOptions{From: 1, By: by})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(span.Notes, res.Notes) || span.Notes == nil || (by == "leak") != (len(span.Notes) > 0) {
			t.Errorf("by %s it notes %q, and a query %q", by, span.Notes, res.Notes)
		}
	}
}
