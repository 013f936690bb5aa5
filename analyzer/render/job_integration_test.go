//go:build integration

package render

import (
	"os/exec"
	"strings"
	"testing"
)

// TestJUnitByPython has Python's parser, which is expat, read the file.
func TestJUnitByPython(t *testing.T) {
	const program = `import sys, xml.etree.ElementTree as E
s = E.fromstring(sys.stdin.buffer.read()).find("testsuite")
for c in s.findall("testcase"):
    print(c.get("name"), "failed" if c.find("failure") is not None else "error" if c.find("error") is not None else "passed")`
	cmd := exec.Command("python3", "-c", program)
	cmd.Stdin = strings.NewReader(string(written(t, jobFixtures()["failed"], Options{Format: JUnit})))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "--fail-on definite failed\n--fail-on rss>60MiB failed\n--fail-on possible passed\nthe check could be made passed\n"
	if string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
}
