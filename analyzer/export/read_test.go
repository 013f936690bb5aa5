package export

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/testdata/costtest"
)

const minimal = `{"schema":"memtrace.report/1","window_ns":`

func TestReadTakesTheLastOfSeveral(t *testing.T) {
	r, note, err := Read(strings.NewReader(minimal+"1}\n"+minimal+"2}\n"), 1<<20)
	if err != nil || note != "" || r.WindowNS != 2 {
		t.Fatal(r, note, err)
	}
	r, note, err = Read(strings.NewReader(minimal+"1}\n"+minimal), 1<<20)
	if err != nil || !strings.Contains(note, "in the middle of a report") || r.WindowNS != 1 {
		t.Fatal(r, note, err)
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]error{
		"": ErrEmpty, "\n": ErrEmpty, "this is text": ErrNotReport, "[1]": ErrNotReport, "{}": ErrNotReport, "1": ErrNotReport, "{": ErrNotReport,
		`{"schema":"memtrace.snapshot/1"}`: ErrNotReport, `{"schema":"memtrace.report/2"}`: ErrNewer, "\x1f\x8b\x08": ErrNotReport,
		`{"schema":"memtrace.report/1","sites":[{"stack":[null]}]}`:                      ErrNotReport,
		`{"schema":"memtrace.report/1","sites":7}`:                                       ErrNotReport,
		`{"schema":"memtrace.report/1","outcome":{"rules":[{"leaks":[0]}]}}`:             ErrNotReport,
		`{"schema":"memtrace.report/1"} trailing`:                                        ErrNotReport,
		`{"schema":"memtrace.report/1","sites":` + strings.Repeat("[", 20_000):           ErrNotReport,
		`{"schema":"memtrace.report/1","warnings":["` + strings.Repeat("x", 2<<20) + `"`: ErrTooLarge,
	} {
		if _, _, err := Read(strings.NewReader(text), 4<<20); !errors.Is(err, want) {
			t.Errorf("%.60q: %v, want %v", text, err, want)
		}
	}
	if _, _, err := Read(iotest.ErrReader(errRead), 1<<20); !errors.Is(err, errRead) {
		t.Error(err)
	}
}

// TestManyLeaksOfManySites: what would take hours to write is refused.
func TestManyLeaksOfManySites(t *testing.T) {
	if err := check(&report.Report{Leaks: make([]report.Leak, 40_000), Sites: make([]report.Site, 40_000)}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// endless repeats a text, and counts what was read of it.
type endless struct {
	text string
	at   int
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at%len(e.text)]
		e.at++
	}
	e.read += len(p)
	return len(p), nil
}

// TestHostileFilesTakeBoundedMemory: few bytes of JSON may stand for large elements.
func TestHostileFilesTakeBoundedMemory(t *testing.T) {
	const limit = 4 << 20
	for begin, repeated := range map[string]string{
		`{"schema":"memtrace.report/1","sites":[`:                            `{},`,
		`{"schema":"memtrace.report/1","processes":[`:                        `null,`,
		`{"schema":"memtrace.report/1","leaks":[`:                            `[],`,
		`{"schema":"memtrace.report/1","sites":[{"stack":[`:                  `{},`,
		`{"schema":"memtrace.report/1","processes":[{"mappings":[`:           `0,`,
		`{"schema":"memtrace.report/1","x":[`:                                `{"a":[[[]]]},`,
		`{"schema":"memtrace.report/1","overhead":{"spans":[`:                `0,`,
		`{"schema":"memtrace.report/1","first_touched":{"sites":[`:           `0,`,
		`{"schema":"memtrace.report/1","first_touched":{"sites":[{"stack":[`: `{},`,
		`{"schema":"memtrace.report/1","y":"`:                                `a`,
	} {
		in := &endless{text: repeated}
		if used := allocated(func() {
			if _, _, err := Read(io.MultiReader(strings.NewReader(begin), in), limit); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s%s…: %v", begin, repeated, err)
			}
		}); used > 4*limit || in.read > limit {
			t.Errorf("%s%s…: took %d bytes of memory and %d of the file", begin, repeated, used, in.read)
		}
		// The most that passes for a document, and is decoded.
		ends := strings.NewReplacer(`"sites":[{"stack":[`, `null]}]}`, `"processes":[{"mappings":[`, `0]}]}`,
			`"overhead":{"spans":[`, `0]}}`, `"first_touched":{"sites":[{"stack":[`, `null]}]}}`,
			`"first_touched":{"sites":[`, `0]}}`, `"y":"`, `"}`)
		tail := ends.Replace(begin[strings.Index(begin, ",")+1:])
		if tail == begin[strings.Index(begin, ",")+1:] {
			tail = "null]}"
		}
		whole := begin + strings.Repeat(repeated, limit/8/len(repeated)) + tail
		if used := allocated(func() { _, _, _ = Read(strings.NewReader(whole), limit) }); used > 8*limit {
			t.Errorf("%s%s…%s: took %d bytes", begin, repeated, tail, used)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzRead: what can be read can be written in every format, and shown.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"service", "empty", "untraced", "unprobed"} {
		var out bytes.Buffer
		if err := render.Write(&out, fixture(f, name), render.Options{Format: render.JSON, Compact: true}); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Add([]byte(`{"schema":"memtrace.report/1","sites":[{"id":1,"stack":[{}]}],"leaks":[{"site":5,"kind":"definite"}],"outcome":{"rules":[{}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer costtest.Bound(t)()
		r, _, err := Read(bytes.NewReader(text), 1<<20)
		if err != nil {
			return
		}
		for _, format := range Formats() {
			if err := Write(io.Discard, r, Options{Format: Format(format)}); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
		for _, format := range []Format{Folded, Flamegraph} {
			if err := WriteDiff(io.Discard, &report.Report{}, r, Options{Format: format}); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
		r.Sort("peak")
		r.Limit(1)
		for _, format := range []render.Format{render.Text, render.JSON, render.Markdown} {
			if err := render.Write(io.Discard, r, render.Options{Format: format, Frames: 3, Stacks: 2, Width: 80}); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
	})
}

// TestSavedReportIsShownAsItWas compares with the golden texts of the Reports that were saved.
func TestSavedReportIsShownAsItWas(t *testing.T) {
	for name, opt := range map[string]render.Options{
		"service.width=80.frames=3.txt":    {Width: 80, Frames: 3},
		"service.width=0.frames=all.txt":   {Frames: -1},
		"lossy.compact.width=160.frames=2": {Width: 160, Frames: 2},
		"untraced.width=100.txt":           {Width: 100},
		"unprobed.width=80.txt":            {Width: 80},
		"empty.width=80.txt":               {Width: 80, Frames: 4},
	} {
		saved, _, _ := strings.Cut(name, ".width")
		want, err := os.ReadFile("../render/testdata/" + strings.Replace(strings.TrimSuffix(name, ".txt"), ".compact", "", 1) + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		r := fixture(t, saved)
		if err := render.Write(&got, r, opt); err != nil || got.String() != string(want) {
			t.Errorf("%s: %v: got\n%s\nwant\n%s", name, err, &got, want)
		}
	}
}
