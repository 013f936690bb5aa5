package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// maxAnnotations is how many are written: GitHub shows ten of a kind a step.
const maxAnnotations = 10

// An annotation is a line that GitHub Actions shows at a place in the source.
// https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
type annotation struct {
	level   string // error, warning, notice
	file    string // relative to the repository; empty: none
	line    int
	title   string
	message string
}

// String escapes as GitHub's toolkit does: % and line ends everywhere, : and ,
// in properties too. The text is cleaned before, so that no name can begin a
// command of its own.
func (a *annotation) String() string {
	var out strings.Builder
	out.WriteString("::" + a.level + " ")
	if a.file != "" {
		out.WriteString("file=" + escapeProperty(clean(a.file)) + ",")
		if a.line > 0 {
			out.WriteString("line=" + strconv.Itoa(a.line) + ",")
		}
	}
	out.WriteString("title=" + escapeProperty(clean(a.title)))
	out.WriteString("::" + escapeData(clean(a.message)))
	return out.String()
}

var (
	dataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func escapeData(s string) string     { return dataEscapes.Replace(s) }
func escapeProperty(s string) string { return propertyEscapes.Replace(s) }

// writeAnnotations writes what made the job fail, then the other leaks: the
// first ten, and one line about the rest.
func writeAnnotations(w io.Writer, r *report.Report, opt Options) error {
	all := annotations(r, opt)
	var out strings.Builder
	for i := range all[:min(len(all), maxAnnotations)] {
		out.WriteString(all[i].String() + "\n")
	}
	if rest := len(all) - maxAnnotations; rest > 0 {
		more := annotation{level: "notice", title: "memtrace", message: fmt.Sprintf("and %d more of %d findings: see the Report", rest, len(all))}
		out.WriteString(more.String() + "\n")
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write annotations: %w", err)
	}
	return nil
}

func annotations(r *report.Report, opt Options) (out []annotation) {
	if r.Outcome != nil {
		for _, problem := range r.Outcome.Problems {
			out = append(out, annotation{level: "error", title: "memtrace could not check", message: problem})
		}
		for _, rule := range r.Outcome.Rules {
			if rule.Status == report.RuleFailed && len(rule.Leaks) == 0 {
				out = append(out, annotation{level: "error", title: "memtrace: limit exceeded", message: rule.Rule + ": " + rule.Figure})
			}
		}
	}
	sites, failed := sitesByID(r), failing(r)
	for _, wanted := range []bool{true, false} {
		for i := range r.Leaks {
			if failed[i] == wanted && !r.Leaks[i].Known {
				out = append(out, leakAnnotation(r, &r.Leaks[i], sites[r.Leaks[i].Site], wanted, opt))
			}
		}
	}
	return out
}

func leakAnnotation(r *report.Report, l *report.Leak, s *report.Site, failed bool, opt Options) annotation {
	a := annotation{level: "warning", title: "memtrace: " + l.Kind + " leak"}
	if failed {
		a.level = "error"
	}
	name := "an unknown function"
	if s != nil {
		name = s.Function
	}
	a.message = leakTitle(l) + ", " + r.Origin() + " in " + name
	if f := place(s, opt.Root); f != nil {
		if file, below := relative(f.File, opt.Root); below {
			a.file, a.line = file, f.Line
		}
	}
	a.message += ": " + strings.Join(append([]string{l.Why}, leakFacts(l)...), "; ")
	return a
}
