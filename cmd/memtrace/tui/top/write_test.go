package top

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func written(t *testing.T, s *Snapshot, o WriteOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, s, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestJSON(t *testing.T) {
	for _, v := range views {
		var doc struct {
			Schema, View string
			Machine      map[string]any
			Columns      []struct{ Name, Unit, Doc string }
			Rows         []map[string]any
			Notes        []string
		}
		out := written(t, full(), WriteOptions{View: v.view, Format: "json"})
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%s: %v", v.view, err)
		}
		if doc.Schema != Schema || doc.View != string(v.view) || doc.Machine["total"] != float64(8*gib) {
			t.Errorf("%s: %+v", v.view, doc)
		}
		if doc.Notes == nil || len(doc.Rows) == 0 || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: not one document on one line, with rows", v.view)
		}
		for _, c := range doc.Columns {
			if c.Unit == "" || c.Doc == "" {
				t.Errorf("%s: column %s is not documented", v.view, c.Name)
			}
			if _, ok := doc.Rows[0][c.Name]; !ok {
				t.Errorf("%s: row without %s", v.view, c.Name)
			}
		}
	}
	if out := written(t, &Snapshot{}, WriteOptions{View: Groups, Format: "json"}); strings.Contains(out, `"rows":null`) || strings.Contains(out, `"notes":null`) {
		t.Errorf("a null array: %s", out)
	}
}

func TestJSONTellsUnknownFromZero(t *testing.T) {
	var doc struct{ Rows []map[string]any }
	s := full()
	s.Processes[1].PSS = denied
	if err := json.Unmarshal([]byte(written(t, s, WriteOptions{View: Processes, Format: "json", Sort: "pid"})), &doc); err != nil {
		t.Fatal(err)
	}
	secret := doc.Rows[slices.IndexFunc(doc.Rows, func(r map[string]any) bool { return r["pid"] == 301.0 })]
	if secret["pss"] != nil || secret["unknown"].(map[string]any)["pss"] != "no permission" {
		t.Errorf("PSS that may not be read: %v", secret)
	}
	redis := doc.Rows[slices.IndexFunc(doc.Rows, func(r map[string]any) bool { return r["pid"] == 101.0 })]
	if redis["pss"] != float64(880*mib) || redis["command"] != "/usr/bin/redis-server --port redis" {
		t.Errorf("bytes as integers, whole command lines: %v", redis)
	}
	if err := json.Unmarshal([]byte(written(t, s, WriteOptions{View: Programs, Format: "json"})), &doc); err != nil {
		t.Fatal(err)
	}
	if got := doc.Rows[0]["at_least"]; got == nil || got.([]any)[0] != "pss" {
		t.Errorf("a lower bound is not marked: %v", doc.Rows[0])
	}
}

func TestCSV(t *testing.T) {
	s := full()
	s.Processes[0].Command = "a,\"b\"\n\x1b[2J"
	lines, err := csv.NewReader(strings.NewReader(written(t, s, WriteOptions{View: Processes, Format: "csv"}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := func(row int, column string) string { return lines[row][slices.Index(lines[0], column)] }
	if len(lines) != 8 || at(1, "pid") != "101" || at(1, "pss") != "922746880" || at(1, "mem") != "10.98" {
		t.Errorf("%q", lines[:2])
	}
	if got := at(1, "command"); got != `a,"b"\x0a\x1b[2J` {
		t.Errorf("command %q", got)
	}
	for i := range lines[1:] {
		switch at(i+1, "pid") {
		case "301":
			if at(i+1, "pss") != "no permission" {
				t.Errorf("denied: %q", at(i+1, "pss"))
			}
		case "2":
			if at(i+1, "pss") != "" {
				t.Errorf("none: %q", at(i+1, "pss"))
			}
		}
	}
}

func TestTextOnce(t *testing.T) {
	out := written(t, full(), WriteOptions{View: Processes, Format: "text"})
	if strings.Contains(out, "\x1b") || strings.Contains(out, "ΔPSS") {
		t.Errorf("styles, or changes that nothing is known of:\n%s", out)
	}
	for _, part := range []string{"/usr/bin/redis-server --port redis", "…/twin.service", "?  no permission", "…  not read"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	narrow := written(t, full(), WriteOptions{View: Processes, Format: "text", Width: 60, Filter: mustFilter(t, "redis")})
	for line := range strings.Lines(narrow) {
		if len([]rune(line)) > 61 {
			t.Errorf("line of %d columns: %q", len([]rune(line)), line)
		}
	}
	if strings.Count(narrow, "redis") != 4 {
		t.Errorf("two processes of that user and name:\n%s", narrow)
	}
}

func mustFilter(t *testing.T, s string) Filter {
	t.Helper()
	f, err := ParseFilter(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestNamesDoNothing: to a terminal, a spreadsheet or a parser, whatever a process,
// a user, a file or a group is called. (The formats have tests of their own.)
func TestNamesDoNothing(t *testing.T) {
	for _, name := range []string{"=1+cmd|'/c'!A0", "\t=1", "a\nb", "\x1b]0;owned\a", "\u009b31m", "\u202egnp.exe", "a\u200bb", "\xff", "\x00", "</script>", "a;=1"} {
		s := full()
		s.Host = name
		for i := range s.Processes {
			p := &s.Processes[i]
			p.Name, p.User, p.Command = name, name, name
		}
		for i := range s.Groups {
			s.Groups[i].Path, s.Groups[i].Container = name, name
		}
		for i := range s.Components {
			s.Components[i].Name = name
		}
		for i := range s.Threads {
			s.Threads[i].Name, s.Threads[i].StackName = name, name
		}
		s.Of.Name = name
		for _, v := range views {
			for _, format := range Formats() {
				out := written(t, s, WriteOptions{View: v.view, Format: format})
				if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
					t.Errorf("%q in %s as %s: %.300q", name, v.view, format, out)
				}
				switch format {
				case "json":
					if err := json.Unmarshal([]byte(out), new(any)); err != nil {
						t.Errorf("%q in %s: %v", name, v.view, err)
					}
				case "csv":
					rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
					for _, cell := range slices.Concat(rows...) {
						if strings.HasPrefix(cell, "=") {
							t.Errorf("%q in %s: the cell %q", name, v.view, cell)
						}
					}
					if err != nil {
						t.Errorf("%q in %s: %v", name, v.view, err)
					}
				}
			}
		}
	}
}
