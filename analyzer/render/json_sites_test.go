package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// manySites have stacks out of few frames, as those of a real program.
func manySites(sites, depth, frames int) *report.Report {
	r := rand.New(rand.NewPCG(1, 2))
	of := make([]report.Frame, frames)
	for i := range of {
		of[i] = report.Frame{
			Function: fmt.Sprintf("std::map<std::string, long>::operator[\\](\"%d\")", i), Mangled: fmt.Sprintf("_ZNSt3mapIlE%d", i), File: "/build/src/map.h",
			Line: i, Module: "/usr/lib/libmap.so.1", BuildID: "0123456789abcdef0123456789abcdef01234567", Offset: uint64(i) * 64, Inlined: i%3 == 0,
		}
	}
	out := &report.Report{Schema: report.Schema}
	for i := range sites {
		s := report.Site{ID: i, PID: 7, Function: of[i%frames].Function, AllocBytes: r.Uint64(), SizeHistogram: [][2]uint64{{64, uint64(i)}}}
		for range r.IntN(depth + 1) {
			s.Stack = append(s.Stack, &of[r.IntN(frames)])
		}
		out.Sites = append(out.Sites, s)
	}
	return out
}

// The document is what encoding/json makes of all of it in one piece.
func TestSitesAreLaidOutAsTheRest(t *testing.T) {
	reports := fixtures()
	delete(reports, "hostile") // what a terminal obeys is escaped there
	reports["many"] = manySites(300, 20, 50)
	for name, r := range reports {
		for _, compact := range []bool{false, true} {
			whole := normalised(r)
			whole.Sites = append(whole.Sites, r.Sites...)
			for i := range whole.Sites {
				whole.Sites[i].Stack, whole.Sites[i].SizeHistogram = orEmpty(whole.Sites[i].Stack), orEmpty(whole.Sites[i].SizeHistogram)
			}
			var got, want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			if !compact {
				enc.SetIndent("", "  ")
			}
			if err := enc.Encode(whole); err != nil {
				t.Fatal(err)
			}
			if err := Write(&got, r, Options{Format: JSON, Compact: compact}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%s, compact %v:\n%s\nwant\n%s", name, compact, got.Bytes(), want.Bytes())
			}
		}
	}
}

// BenchmarkWriteSites writes sites of 40 frames; the floor is their bytes alone.
func BenchmarkWriteSites(b *testing.B) {
	const sites = 2000
	r := manySites(sites, 80, 3000)
	var text bytes.Buffer
	if err := Write(&text, r, Options{Format: JSON}); err != nil {
		b.Fatal(err)
	}
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			out := bytes.NewBuffer(make([]byte, 0, text.Len()))
			out.Write(text.Bytes())
		}
	})
	b.Run("sites", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			if err := Write(io.Discard, r, Options{Format: JSON}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
