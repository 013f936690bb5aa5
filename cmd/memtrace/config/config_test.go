package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// testSchema is of two commands: trace has interval, sort and fail-on, top has interval, sort and pid.
func testSchema() Schema {
	oneOf := func(words ...string) func([]string) error {
		return func(values []string) error {
			for _, v := range values {
				if !slices.Contains(words, v) {
					return errors.New("none of " + strings.Join(words, ", "))
				}
			}
			return nil
		}
	}
	anything := func([]string) error { return nil }
	return Schema{
		{Command: "trace", Name: "interval", Default: "1s", Check: oneOf("1s", "5s", "9s")},
		{Command: "trace", Name: "sort", Default: "live", Check: oneOf("live", "peak")},
		{Command: "trace", Name: "fail-on", Many: true, Check: anything},
		{Command: "trace", Name: "pid", Many: true, Never: "it says what to look at", Check: anything},
		{Command: "top", Name: "interval", Default: "1s", Check: oneOf("1s", "5s", "9s")},
		{Command: "top", Name: "sort", Check: oneOf("uss", "rss")},
		{Command: "trace", Name: "baseline", File: true, Check: anything},
	}
}

func TestParse(t *testing.T) {
	entries, err := Parse("c.yaml", []byte("# mine\ninterval: 5s\nfail-on: [definite, \"rss>2GiB\"]\ntop:\n  sort: uss # columns\n"), testSchema())
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{Flag: "interval", Values: []string{"5s"}, Where: "c.yaml:2"},
		{Flag: "fail-on", Values: []string{"definite", "rss>2GiB"}, Where: "c.yaml:3"},
		{Command: "top", Flag: "sort", Values: []string{"uss"}, Where: "c.yaml:5"},
	}
	if !slices.EqualFunc(entries, want, equalEntry) {
		t.Errorf("Parse returns %+v, want %+v", entries, want)
	}
	none, err := Parse("c.yaml", []byte("fail-on: []\n"), testSchema())
	if err != nil || !slices.Equal(none[0].Values, []string{""}) {
		t.Errorf("Parse of [] returns %+v, %v, want an empty value", none, err)
	}
	for _, empty := range []string{"", "# nothing yet\n", "---\n"} {
		if entries, err := Parse("c.yaml", []byte(empty), testSchema()); err != nil || len(entries) > 0 {
			t.Errorf("Parse(%q) = %v, %v, want nothing", empty, entries, err)
		}
	}
}

// A relative path is one from the directory of the file, wherever memtrace runs.
func TestParseResolvesPaths(t *testing.T) {
	for text, want := range map[string]string{
		"old.json": "/etc/memtrace/old.json", "../x": "/etc/x", "/srv/old.json": "/srv/old.json", `""`: "",
	} {
		entries, err := Parse("/etc/memtrace/config.yaml", []byte("baseline: "+text+"\n"), testSchema())
		if err != nil || len(entries) != 1 || entries[0].Values[0] != want {
			t.Errorf("baseline: %s is %+v, %v, want %q", text, entries, err, want)
		}
	}
}

func equalEntry(a, b Entry) bool {
	return a.Command == b.Command && a.Flag == b.Flag && a.Where == b.Where && slices.Equal(a.Values, b.Values)
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"intervall: 5s\n", "c.yaml:1: intervall: there is no flag of this name; did you mean interval?"},
		{"top:\n  fail-on: x\n", "c.yaml:2: fail-on: top has no flag of this name"},
		{"\ntopp:\n  sort: uss\n", "c.yaml:2: topp: there is no such command with flags to set; did you mean top?"},
		{"top: 5\n", "c.yaml:1: top: it is a command: write its flags below it, indented"},
		{"interval: soon\n", `c.yaml:1: interval: "soon": none of 1s, 5s, 9s`},
		{"sort: size\n", `c.yaml:1: sort: "size": none of live, peak`},
		{"top:\n  sort: live\n", `c.yaml:2: sort: "live": none of uss, rss`},
		{"interval: [1s, 5s]\n", "c.yaml:1: interval: one value is wanted, not a list"},
		{"interval:\n", "c.yaml:1: interval: a value is wanted"},
		{"pid: 12\n", "c.yaml:1: pid: give it on the command line alone, as it says what to look at"},
		{"interval: 5s\ninterval: 9s\n", "c.yaml:2: interval: it stands in line 1, too"},
		{"- interval\n", "c.yaml:1: flags with their values are wanted, such as interval: 5s"},
		{"interval: 5s\n---\ninterval: 9s\n", "c.yaml: it has more than one document: keep what stands before the line ---"},
		{"interval: &a 5s\nsort: *a\n", "c.yaml:2: sort: a value is wanted"},
		{"interval: 'x\n", "c.yaml: line 2: found unexpected end of stream"},
		{"one: 1\ntwo: 2\n", "c.yaml:1: one: there is no flag of this name\nc.yaml:2: two: there is no flag of this name"},
		{strings.Repeat("#", MaxFile+1), "c.yaml: it has more than 65536 bytes"},
	} {
		if _, err := Parse("c.yaml", []byte(c.text), testSchema()); err == nil || err.Error() != c.want {
			t.Errorf("Parse(%.40q) says %v, want %s", c.text, err, c.want)
		}
	}
}

func TestVariables(t *testing.T) {
	entries, unknown, err := Variables([]string{"HOME=/x", "MEMTRACE_FAIL_ON=definite", "MEMTRACE_TOP_SORT=rss", "MEMTRACE_SORT=",
		"MEMTRACE_INTERVALL=5s", "MEMTRACE_SOMETHING_ELSE=1"}, testSchema())
	want := []Entry{
		{Flag: "fail-on", Values: []string{"definite"}, Where: "MEMTRACE_FAIL_ON"},
		{Command: "top", Flag: "sort", Values: []string{"rss"}, Where: "MEMTRACE_TOP_SORT"},
	}
	if err != nil || !slices.EqualFunc(entries, want, equalEntry) {
		t.Errorf("Variables returns %+v, %v, want %+v", entries, err, want)
	}
	if said := []string{"MEMTRACE_INTERVALL is the variable of no flag; did you mean MEMTRACE_INTERVAL?"}; !slices.Equal(unknown, said) {
		t.Errorf("unknown variables: %q, want %q", unknown, said)
	}
	for text, want := range map[string]string{
		"MEMTRACE_INTERVAL=soon": `MEMTRACE_INTERVAL: interval: "soon": none of 1s, 5s, 9s`,
		"MEMTRACE_PID=1":         "MEMTRACE_PID: pid: give it on the command line alone, as it says what to look at",
	} {
		if _, _, err := Variables([]string{text}, testSchema()); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestResolve(t *testing.T) {
	schema := testSchema()
	variables := []Entry{{Flag: "interval", Values: []string{"9s"}, Where: "variable"}}
	mine := []Entry{
		{Flag: "interval", Values: []string{"5s"}, Where: "mine"},
		{Flag: "sort", Values: []string{"peak"}, Where: "mine for all"}, // which top can't take
		{Command: "trace", Flag: "sort", Values: []string{"live"}, Where: "mine for trace"},
	}
	machine := []Entry{{Command: "top", Flag: "sort", Values: []string{"uss"}, Where: "machine"}}
	for i, want := range []string{"variable", "mine for trace", "", "", "variable", "machine"} {
		e := Resolve(&schema[i], variables, mine, machine)
		if got := whereOf(e); got != want {
			t.Errorf("%s of %s is from %q, want %q", schema[i].Name, schema[i].Command, got, want)
		}
	}
	if got := whereOf(Resolve(&schema[0], nil, mine, machine)); got != "mine" {
		t.Errorf("without a variable, interval is from %q, want mine", got)
	}
}

func whereOf(e *Entry) string {
	if e == nil {
		return ""
	}
	return e.Where
}

// FuzzParse: whatever a file has, Parse says what is wrong with it.
func FuzzParse(f *testing.F) {
	f.Add("interval: 5s\ntop:\n  sort: uss\n")
	f.Add("a: &a [*a]\n<<: *a\n? [x]\n: y\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer costtest.Bound(t)()
		_, _ = Parse("c.yaml", []byte(text), testSchema())
	})
}
