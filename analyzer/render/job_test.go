package render

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestJUnitIsRead reads the file as a CI server does: elements and attributes
// by name, counts that agree with what is there, nothing unknown.
func TestJUnitIsRead(t *testing.T) {
	allowed := map[string]string{
		"testsuites": "name tests failures errors time", "testsuite": "name tests failures errors time",
		"properties": "", "property": "name value", "testcase": "name classname time",
		"failure": "message type", "error": "message type", "system-out": "",
	}
	for name, r := range jobFixtures() {
		doc := written(t, r, Options{Format: JUnit})
		counts := map[string]int{}
		var said [3]int
		strict := xml.NewDecoder(strings.NewReader(string(doc)))
		for {
			token, err := strict.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			counts[start.Name.Local]++
			attributes, known := allowed[start.Name.Local]
			if !known {
				t.Errorf("%s: unknown element %s", name, start.Name.Local)
			}
			for _, a := range start.Attr {
				if !slices.Contains(strings.Fields(attributes), a.Name.Local) {
					t.Errorf("%s: %s has the unknown attribute %s", name, start.Name.Local, a.Name.Local)
				}
				if start.Name.Local == "testsuite" {
					for i, word := range []string{"tests", "failures", "errors"} {
						if a.Name.Local == word {
							_, _ = fmt.Sscan(a.Value, &said[i])
						}
					}
				}
			}
		}
		if want := [3]int{counts["testcase"], counts["failure"], counts["error"]}; said != want || counts["testsuite"] != 1 {
			t.Errorf("%s: it says %v tests, failures, errors; there are %v", name, said, want)
		}
	}
}

var workflowCommand = regexp.MustCompile(`^::(error|warning|notice) ((?:file=[^:,\r\n]*,)?(?:line=\d+,)?title=[^:,\r\n]*)::([^\r\n]*)$`)

// TestAnnotationsCannotBeEscapedFrom reads the lines back by the rules of
// GitHub's documentation.
func TestAnnotationsCannotBeEscapedFrom(t *testing.T) {
	for name, r := range jobFixtures() {
		doc := string(written(t, r, Options{Format: Annotations, Root: "/build/service-1.2"}))
		lines := strings.Split(strings.TrimSuffix(doc, "\n"), "\n")
		if len(lines) > maxAnnotations+1 {
			t.Errorf("%s: %d lines", name, len(lines))
		}
		for _, line := range lines {
			if doc == "" {
				continue
			}
			if !workflowCommand.MatchString(line) {
				t.Errorf("%s: %q is no command", name, line)
			}
			if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%s: %q is not printable", name, line)
			}
		}
	}
	a := annotation{level: "error", file: "a,b:c%.c", line: 3, title: "t:,%", message: "x\r\n::warning::y%0A: z, ü"}
	want := `::error file=a%2Cb%3Ac%25.c,line=3,title=t%3A%2C%25::x\x0d\x0a::warning::y%250A: z, ü`
	if got := a.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := escapeData("%\r\n:,") + escapeProperty("%\r\n:,"); got != "%25%0D%0A:,%25%0D%0A%3A%2C" {
		t.Error(got)
	}
}

func TestAnnotationsAreTheFirstTenAndTheRest(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(string(written(t, jobFixtures()["many"], Options{Format: Annotations}))), "\n")
	if len(lines) != 11 || lines[10] != "::notice title=memtrace::and 291 more of 301 findings: see the Report" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	first := string(written(t, jobFixtures()["failed"], Options{Format: Annotations, Root: "/build/service-1.2"}))
	if !strings.Contains(first, "::error file=src/list.h,line=77,title=memtrace%3A definite leak::definite leak of 4.00 KiB in 4 blocks, allocated in session_new: no pointer") {
		t.Error(first)
	}
}

// TestMarkdownIsTextOnly takes the references out again and looks at what is
// left for anything that Markdown or HTML would act on.
func TestMarkdownIsTextOnly(t *testing.T) {
	attack := "a|b`c<script>d</script>*e*_f_[g](http://h)~i~#j @k ![l](m) \\n &amp; {{o}} $p$ www.q.r"
	for _, c := range markdownText(attack) {
		if strings.ContainsRune("|`<>*_[]~@!\\{}$\"'", c) {
			t.Errorf("%q is left in %s", c, markdownText(attack))
		}
	}
	if got := html.UnescapeString(markdownText(attack)); got != attack {
		t.Errorf("it reads %q", got)
	}
	row := regexp.MustCompile(`^\|( [^|]* \|){3,6}$`)
	for name, r := range jobFixtures() {
		doc := string(written(t, r, Options{Format: Markdown, Root: "/build/service-1.2"}))
		if len(doc) > maxMarkdown {
			t.Errorf("%s: %d bytes", name, len(doc))
		}
		for _, line := range strings.Split(doc, "\n") {
			if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|--") && !row.MatchString(line) {
				t.Errorf("%s: the row %q is broken", name, line)
			}
			for _, tag := range regexp.MustCompile(`<[^>]*>?`).FindAllString(line, -1) {
				if !slices.Contains([]string{"<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>", "<pre>", "</pre>"}, tag) {
					t.Errorf("%s: the tag %q in %q", name, tag, line)
				}
			}
			if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%s: %q is not printable", name, line)
			}
		}
	}
}

func TestTextTellsTheOutcome(t *testing.T) {
	out := text(t, jobFixtures()["failed"], Options{Width: 100})
	for _, want := range []string{
		"\nCheck: failed\n  failed   definite   4.00 KiB in 4 blocks of 1 leaks\n  failed   rss>60MiB  64.0 MiB (process 4242 service)\n  passed   possible   none\n",
		"4.00 KiB resident; oldest block 5.00 s, newest 3.00 ms; growing by 600 KiB/s",
		"known to the baseline, and not counted: 12.0 MiB in 12,288 blocks",
		"in the baseline, and not found any more: definite leak of 24 B in 1 block, parse",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
