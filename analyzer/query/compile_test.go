package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// TestProblems sees that each mistake is answered with its place and what to write.
func TestProblems(t *testing.T) {
	for _, c := range []struct{ source, place, text string }{
		{`size > 3ms`, `3ms`, "size is a size in bytes, and this is a time"},
		{`lifetime < 5`, `5`, "write the unit, such as 5ms"},
		{`funktion == "x"`, `funktion`, "did you mean function?"},
		{`colour == 3`, `colour`, "alive_at(t)"},
		{`resident > 4KiB`, `resident`, "known of call sites"},
		{`size = 3`, `=`, "write =="},
		{`size > 1 & live`, `&`, "write &&"},
		{`function ~ parse`, `parse`, "in quotes"},
		{`function ~ "("`, `"("`, "missing closing"},
		{`function ~ "((a{100}){100}){10}"`, `"((a{100}){100}){10}"`, ""},
		{`size ~ "4"`, `size`, "matches texts"},
		{`size`, `size`, "compare it"},
		{`function`, `function`, "compare it"},
		{`size > 1 && function`, `function`, "compare it"},
		{`(size > 1`, `(`, "not closed"},
		{`size > 1)`, `)`, "end of the expression"},
		{`function == "abc`, `"`, "not closed"},
		{`size > `, ``, "missing"},
		{`1 < size < 3`, `<`, "one comparison at a time"},
		{`function < "x"`, `<`, "== and !="},
		{`function == 3`, `3`, "can't be compared"},
		{`function contains "x"`, `contains`, `function ~ "parse"`},
		{`size in 3`, `3`, "a list"},
		{`size in [3`, `[`, "not closed"},
		{`thread in ["a"]`, `"a"`, "a plain number"},
		{`alive_at(3)`, `3`, "takes a time"},
		{`alive_at > 3s`, `alive_at`, "alive_at(30s)"},
		{`size(3) > 1`, `(`, "not a function"},
		{`size > 4XiB`, `4XiB`, "unknown unit"},
		{`!size`, `size`, "negated"},
		{`size > -1`, `-`, "negative"},
		{`born * lifetime > 3s`, `lifetime`, "times"},
		{`"ä" == function && sïze > 1`, "ï", "means nothing"},
		{strings.Repeat("(", 100), `(`, "too large"},
		{strings.Repeat("live&&", 600) + "live", `live`, "too large"},
	} {
		_, err := Compile(c.source)
		var p *Problem
		if !errors.As(err, &p) {
			t.Errorf("%.60s: %v, want a Problem", c.source, err)
			continue
		}
		if got := c.source[p.From:p.To]; got != c.place || !strings.Contains(p.Text, c.text) {
			t.Errorf("%.60s: at %q: %s; want %q: %s", c.source, got, p.Text, c.place, c.text)
		}
	}
}

// TestExplain shows the place under letters of several bytes, too.
func TestExplain(t *testing.T) {
	_, err := Compile(`function == "äöü" && size > 3s`)
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	want := "size is a size in bytes, and this is a time\n\n" +
		"    function == \"äöü\" && size > 3s\n" +
		"                                ^^\n"
	if got := p.Explain(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := p.Error(); !strings.Contains(got, "at character 29") {
		t.Error(got)
	}
}

// TestLiterals compares what people write with numbers.
func TestLiterals(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "1.5": 1.5, "1e6": 1e6, "1e+3": 1000, "0xff": 255, "0xffffffffffffffff": 1 << 64, "4KiB": 4096, "1.5MiB": 1.5 * (1 << 20), "2kB": 2000, "3B": 3, "1G": 1 << 30,
		"1ns": 1, "2us": 2000, "2µs": 2000, "2μs": 2000, "1.5ms": 1.5e6, "1s": 1e9, "1m30s": 90e9, "10m": 600e9, "2min": 120e9, "1h": 3600e9, "1d": 86400e9,
	} {
		l := lexer{source: text + ")"}
		got, problem := l.next()
		if problem != nil || got.number != want || got.to != len(text) {
			t.Errorf("%s: %v (until %d), %v; want %v", text, got.number, got.to, problem, want)
		}
	}
}

// TestTexts sees that texts stay as they are, but for quotes.
func TestTexts(t *testing.T) {
	for source, want := range map[string]string{
		`"a\.b"`: `a\.b`, `"a\\.b"`: `a\.b`, `"say \"x\""`: `say "x"`, `'it"s'`: `it"s`, "`a\\`": `a\`, `"4KiB && size"`: "4KiB && size", `"~"`: "~",
	} {
		l := lexer{source: source}
		got, problem := l.next()
		if problem != nil || got.kind != tokenText || got.text != want {
			t.Errorf("%s: %q, %v; want %q", source, got.text, problem, want)
		}
	}
}

// FuzzCompile sees that no expression takes much, and that what was checked can be asked.
func FuzzCompile(f *testing.F) {
	for _, a := range atoms {
		f.Add(a.text)
	}
	f.Add(`function ~ "((a{10}){10}){10}"`)
	f.Add(`!(size in [1, 2] or "x" == comm)`)
	f.Fuzz(func(t *testing.T, source string) {
		defer costtest.Bound(t)()
		q, err := Compile(source)
		var p *Problem
		if err != nil {
			if !errors.As(err, &p) || p.From < 0 || p.From > p.To || p.To > len(source) {
				t.Fatalf("%q: %v at %+v", source, err, p)
			}
			_ = p.Explain()
			return
		}
		allowed := testing.AllocsPerRun(1, func() { _, _ = Compile(source) })
		if allowed > 200_000 {
			t.Errorf("%q takes %v allocations", source, allowed)
		}
		s := sampleSubject(q)
		if q.site != nil {
			q.site(s)
		}
		if q.block != nil {
			q.block(s)
		}
	})
}
