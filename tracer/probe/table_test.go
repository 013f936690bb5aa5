//go:build amd64

package probe

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/probes.md")

const tableFile = "../../docs/probes.md"

var tableMarks = regexp.MustCompile(`(?s)(<!-- table -->\n)(.*)(<!-- end of table -->\n)`)

// TestProbesTable compares the documented places with what is chosen for the
// libraries of this system, as far as they are the documented builds.
func TestProbesTable(t *testing.T) {
	doc, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	table := tableMarks.FindSubmatch(doc)
	if table == nil {
		t.Fatalf("%s has no marks for the table", tableFile)
	}
	var fresh strings.Builder
	for _, path := range append([]string{libcPath(t)}, installed()...) {
		o := inspectFile(t, path)
		section := tableSection(path, o)
		fresh.WriteString(section)
		if strings.Contains(string(table[2]), o.BuildID) && !strings.Contains(string(table[2]), section) {
			t.Errorf("%s no longer says what is chosen for %s; run with -update:\n%s", tableFile, path, section)
		}
	}
	if n := strings.Count(string(table[2]), "Build ID"); n < 5 && !*update {
		t.Errorf("%s describes %d libraries, want glibc and four more", tableFile, n)
	}
	if *update {
		doc = tableMarks.ReplaceAll(doc, []byte("${1}"+strings.ReplaceAll(fresh.String(), "$", "$$")+"${3}"))
		if err := os.WriteFile(tableFile, doc, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func tableSection(path string, o Object) string {
	var b strings.Builder
	name := path[strings.LastIndexByte(path, '/')+1:]
	fmt.Fprintf(&b, "\n### %s: %s\n\nBuild ID %s.\n\n| function | place | instruction | arguments | cost |\n|---|---|---|---|---|\n", o.Family, name, o.BuildID)
	for _, p := range o.Probes {
		var args []string
		for _, r := range p.Args {
			if r != RegNone {
				args = append(args, r.String())
			}
		}
		note := ""
		if p.MayForward != "" {
			note = ", may forward to `" + p.MayForward + "`"
		}
		if p.Cache != (ThreadCache{}) {
			note += ", results can be predicted"
		}
		fmt.Fprintf(&b, "| `%s` | +%d | `%s` | %s | %s%s |\n", p.Name, p.Offset-p.Entry, p.Instruction, strings.Join(args, ", "), p.Cost, note)
	}
	if len(o.Skipped) > 0 {
		b.WriteString("\nLeft out: ")
		for i, s := range o.Skipped {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "`%s` %s", s.Name, s.Reason)
		}
		b.WriteString(".\n")
	}
	return b.String()
}
