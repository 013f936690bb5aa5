package render

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

const (
	// maxMarkdown bounds a summary, in bytes: GitHub drops those of a step
	// that come to more than 1 MiB.
	maxMarkdown = 64 << 10
	// What a summary shows at most.
	markdownLeaks  = 20
	markdownStacks = 5
	markdownFrames = 12
	markdownName   = 120 // columns
)

// markdown collects sections, as many as fit.
type markdown struct {
	strings.Builder
	left int // sections that did not fit
}

func (m *markdown) add(section string) {
	if m.left > 0 || m.Len()+len(section) > maxMarkdown-200 {
		m.left++
		return
	}
	m.WriteString(section)
}

// writeMarkdown writes a summary for people, of bounded size.
func writeMarkdown(w io.Writer, r *report.Report, opt Options) error {
	var m markdown
	m.add("## memtrace: " + headline(r.Outcome) + "\n\n")
	if o := r.Outcome; o != nil {
		for _, problem := range o.Problems[:min(len(o.Problems), markdownLeaks)] {
			m.add("- **The check could not be made**: " + markdownText(problem) + "\n")
		}
		m.add(markdownRules(o))
		m.add(markdownRest(o))
	}
	m.add(markdownLeakTable(r, opt))
	sites := sitesByID(r)
	for i := range r.Leaks[:min(len(r.Leaks), markdownStacks)] {
		m.add(markdownStack(&r.Leaks[i], sites[r.Leaks[i].Site]))
	}
	if m.left > 0 {
		m.WriteString("\nThis summary is cut; the Report has the rest.\n")
	}
	m.WriteString("\n")
	if _, err := io.WriteString(w, m.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func markdownRules(o *report.Outcome) string {
	if len(o.Rules) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\n| `--fail-on` | result | found |\n|---|---|---|\n")
	for i := range o.Rules[:min(len(o.Rules), maxListed)] {
		rule := &o.Rules[i]
		status := rule.Status
		if status == report.RuleFailed {
			status = "**failed**"
		}
		out.WriteString("| " + markdownText(rule.Rule) + " | " + status + " | " + markdownText(rule.Figure) + " |\n")
	}
	return out.String() + "\n"
}

// markdownRest tells of leaks that did not count and of those that are gone.
func markdownRest(o *report.Outcome) string {
	var out strings.Builder
	for _, line := range outcomeNotes(o) {
		out.WriteString("- " + markdownText(line) + "\n")
	}
	return out.String()
}

func markdownLeakTable(r *report.Report, opt Options) string {
	if len(r.Leaks) == 0 {
		return "\nNo leak was found.\n"
	}
	var out strings.Builder
	out.WriteString("\n| leak | bytes | blocks | resident | " + r.Origin() + " in | why |\n|---|--:|--:|--:|---|---|\n")
	sites := sitesByID(r)
	for i := range r.Leaks[:min(len(r.Leaks), markdownLeaks)] {
		l := &r.Leaks[i]
		resident := "not read"
		if l.Pages != nil {
			resident = size(l.Pages.Resident)
		}
		name, where := "unknown", ""
		if s := sites[l.Site]; s != nil {
			name = s.Function
			if f := place(s, opt.Root); f != nil && f.File != "" {
				file, _ := relative(f.File, opt.Root)
				where = " " + markdownText(elidePath(clean(file), markdownName)+lineSuffix(f))
			}
		}
		why := l.Why
		if l.Known {
			why += "; known to the baseline"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | <code>%s</code>%s | %s |\n", markdownText(l.Kind), size(l.Bytes), count(l.Count), resident,
			markdownText(elide(clean(name), markdownName)), where, markdownText(clip(clean(why), 3*markdownName)))
	}
	if rest := len(r.Leaks) - markdownLeaks; rest > 0 {
		fmt.Fprintf(&out, "\nand %s\n", counted(uint64(rest), "more leak", "more leaks"))
	}
	return out.String()
}

func markdownStack(l *report.Leak, s *report.Site) string {
	if s == nil || len(s.Stack) == 0 {
		return ""
	}
	p := &page{width: markdownName}
	addStack(p, s, markdownFrames)
	return "\n<details><summary>" + html.EscapeString(clean(leakTitle(l))) + "</summary>\n<pre>\n" +
		html.EscapeString(string(p.bytes())) + "</pre></details>\n"
}

// markdownText writes what Markdown, HTML or GitHub could read as anything but
// text as character references: pipes, backticks, tags, mentions, links.
func markdownText(s string) string {
	var out strings.Builder
	for _, c := range clean(s) {
		if c < 0x80 && strings.ContainsRune("&<>\"'|`*_[]{}\\#~!@:$^", c) {
			fmt.Fprintf(&out, "&#%d;", c)
		} else {
			out.WriteRune(c)
		}
	}
	// A bare "www." is a link to GitHub even without a scheme.
	return strings.ReplaceAll(out.String(), "www.", "www&#46;")
}
