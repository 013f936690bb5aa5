package render

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"path"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
)

// The elements of a JUnit file, as Jenkins, GitLab and GitHub's actions read it.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Name    string       `xml:"name,attr"`
	Suites  []junitSuite `xml:"testsuite"`
	junitCounts
}

type junitCounts struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Time     string `xml:"time,attr"` // seconds
}

type junitSuite struct {
	Name string `xml:"name,attr"`
	junitCounts
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out,omitempty"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string       `xml:"name,attr"`
	Class   string       `xml:"classname,attr"`
	Time    string       `xml:"time,attr"`
	Failure *junitResult `xml:"failure"`
	Error   *junitResult `xml:"error"`
}

type junitResult struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes a test case for each condition, so that its history can be
// followed from job to job, and one for the check itself.
func writeJUnit(w io.Writer, r *report.Report, opt Options) error {
	suite := junitSuite{Name: "memtrace", Properties: junitProperties(r), Cases: junitCases(r, opt), Out: leaksAsText(r, allLeaks(r))}
	for _, c := range suite.Cases {
		suite.Tests++
		if c.Failure != nil {
			suite.Failures++
		}
		if c.Error != nil {
			suite.Errors++
		}
	}
	suite.Time = strconv.FormatFloat(float64(r.WindowNS)/1e9, 'f', 3, 64)
	doc := junitSuites{Name: "memtrace", Suites: []junitSuite{suite}, junitCounts: suite.junitCounts}
	var out bytes.Buffer
	out.WriteString(xml.Header)
	enc := xml.NewEncoder(&out)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("encode report as JUnit: %w", err)
	}
	out.WriteByte('\n')
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func junitProperties(r *report.Report) []junitProperty {
	out := []junitProperty{{"schema", report.Schema}, {"tracer", clean(r.Tracer.Attach)}, {"events_lost", strconv.FormatUint(r.Events.Lost, 10)}}
	for i := range r.Processes[:min(len(r.Processes), maxListed)] {
		p := &r.Processes[i]
		out = append(out, junitProperty{fmt.Sprintf("process %d", p.PID), clean(p.Comm + " " + p.Exe)})
	}
	return out
}

func junitCases(r *report.Report, opt Options) []junitCase {
	class := "memtrace"
	if len(r.Processes) > 0 {
		class += "." + clean(path.Base(r.Processes[0].Exe))
	}
	check := junitCase{Name: "the check could be made", Class: class, Time: "0"}
	out := []junitCase{}
	if r.Outcome != nil {
		for _, problem := range r.Outcome.Problems {
			if check.Error == nil {
				check.Error = &junitResult{Message: clean(problem), Type: "check"}
			}
			check.Error.Text += clean(problem) + "\n"
		}
		for i := range r.Outcome.Rules {
			out = append(out, junitRule(r, &r.Outcome.Rules[i], class))
		}
	}
	return append(out, check)
}

func junitRule(r *report.Report, rule *report.RuleDone, class string) junitCase {
	c := junitCase{Name: clean("--fail-on " + rule.Rule), Class: class, Time: "0"}
	message := clean(rule.Rule + ": " + rule.Figure)
	switch rule.Status {
	case report.RuleFailed:
		c.Failure = &junitResult{Message: message, Type: clean(rule.Rule), Text: leaksAsText(r, rule.Leaks)}
	case report.RuleUnknown:
		c.Error = &junitResult{Message: "not decided, as the check could not be made: " + message, Type: "check"}
	}
	return c
}

// maxListed bounds lists in files that others keep and show.
const maxListed = 100

func allLeaks(r *report.Report) []int {
	out := make([]int, len(r.Leaks))
	for i := range out {
		out[i] = i
	}
	return out
}

// leaksAsText describes leaks with their stacks, at most maxListed of them.
func leaksAsText(r *report.Report, leaks []int) string {
	if len(leaks) == 0 {
		return ""
	}
	p, sites := &page{}, sitesByID(r)
	for _, i := range leaks[:min(len(leaks), maxListed)] {
		l := &r.Leaks[i]
		p.line(plain, leakTitle(l))
		p.prose(plain, "  ", l.Why)
		p.flow(plain, "  ", leakFacts(l), "; ")
		if s := sites[l.Site]; s != nil {
			addStack(p, s, maxStack)
		}
	}
	if rest := len(leaks) - maxListed; rest > 0 {
		p.line(plain, "and "+counted(uint64(rest), "more leak", "more leaks"))
	}
	return "\n" + string(p.bytes())
}

// maxStack is how many frames of a stack go into such files.
const maxStack = 30
