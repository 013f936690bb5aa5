//go:build linux && !viewer

package goheap

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the rows of docs/languages.md; MEMTRACE_GOROOTS lists the roots of further versions of Go")

const tablePath = "../../docs/languages.md"

// versionRow matches the minor version that a row is of.
var versionRow = regexp.MustCompile(`^\| Go (1\.[0-9]+)`)

// checkTable compares rows, which end with a line break each, with those of the documentation. Rows of versions that were not looked at stay.
func checkTable(t *testing.T, rows map[string]string) {
	t.Helper()
	text, err := os.ReadFile(tablePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- go: begin -->\n")
	table, after, ok2 := strings.Cut(rest, "<!-- go: end -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no table of Go's versions", tablePath)
	}
	if *update {
		all := ""
		for _, v := range []string{"1.20", "1.21", "1.22", "1.23", "1.24", "1.25", "1.26"} {
			all += rows[v]
		}
		if err := os.WriteFile(tablePath, []byte(before+"<!-- go: begin -->\n"+all+"<!-- go: end -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for version, row := range rows {
		if !strings.Contains(table, row) {
			t.Errorf("%s lacks the row of Go %s:\n%s", tablePath, version, row)
		}
	}
}

// rowOf is what was found of a version, in the order of ways.
func rowOf(version string, found []string) (minor, row string) {
	row = "| Go " + strings.Join(strings.Split(strings.TrimPrefix(version, "go"), ".")[:2], ".") + " | " + strings.Join(found, " | ") + " |\n"
	return versionRow.FindStringSubmatch(row)[1], row
}
