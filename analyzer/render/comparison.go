package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/report"
)

// ComparisonFormats lists what WriteComparison accepts.
func ComparisonFormats() []string {
	return []string{string(Text), string(JSON), string(CSV), string(Markdown)}
}

// ComparisonOptions say how to write what changed from one Report to another.
type ComparisonOptions struct {
	Format Format // empty means Text
	Top    int    // rows in which most changed; 0 means all
	Width  int    // text: columns of the terminal; 0 means no limit
	Stacks int    // text: rows whose stacks follow, the first ones; 0 means none
	Frames int    // text: frames per stack; less than 0 all
	Color  bool   // text
}

// WriteComparison writes d in opt.Format. Text and Markdown have the rows that changed, the others
// all; what is left out stands there as a sum. CSV has no room for d.Cautions.
func WriteComparison(w io.Writer, d *compare.Diff, opt ComparisonOptions) error {
	var data []byte
	switch opt.Format {
	case Text, "":
		data = comparisonText(d, opt)
	case JSON:
		if err := writeComparisonJSON(w, d, opt.Top); err != nil {
			return fmt.Errorf("write comparison as JSON: %w", err)
		}
		return nil
	case CSV:
		data = EncodeCSV(comparisonRows(d, opt.Top))
	case Markdown:
		data = comparisonMarkdown(d, opt)
	default:
		return fmt.Errorf("write comparison: unknown format %q (have %v)", opt.Format, ComparisonFormats())
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// comparedName is what a row is called.
func comparedName(r *compare.Row) string {
	if r.Site != nil {
		return siteName(r.Site)
	}
	return clean(r.Key)
}

// comparedSource is "file:line" of a row that is a site, if it is known.
func comparedSource(r *compare.Row) string {
	if r.Site == nil {
		return ""
	}
	return location(siteFrame(r.Site))
}

// comparedTitle says what is compared, and what with what.
func comparedTitle(d *compare.Diff) []string {
	what := d.Figure.Title
	return []string{
		strings.ToUpper(what[:1]) + what[1:] + ", by " + d.By + ",",
		"from " + sideName(&d.Before), "to " + sideName(&d.After),
	}
}

// sideName is a file and which processes it is of.
func sideName(s *compare.Side) string {
	const most = 3
	var names []string
	seen := make(map[string]bool)
	for i := range s.Report.Processes {
		if name := clean(s.Report.Processes[i].Comm); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], count(uint64(more))+" more")
	}
	return fmt.Sprintf("%s (%s)", clean(s.Name), strings.Join(append(names, "traced "+duration(s.Report.WindowNS)), ", "))
}

// comparedAmount is one side of a sum in words: "12.0 MiB in 12,288 blocks".
func comparedAmount(f *compare.Figure, s *compare.Sum, side func(*compare.Delta) uint64) string {
	number := counted(side(&s.Count), f.Thing, f.Thing+"s")
	switch {
	case !f.Bytes:
		return number
	case !f.Count:
		return size(side(&s.Bytes))
	}
	return size(side(&s.Bytes)) + " in " + number
}

func was(d *compare.Delta) uint64 { return d.Before }
func is(d *compare.Delta) uint64  { return d.After }

// comparedFormat writes a figure.
func comparedFormat(f *compare.Figure) func(uint64) string {
	if f.Bytes {
		return size
	}
	return count
}

// comparedTotals says what changed in all, both signs apart.
func comparedTotals(d *compare.Diff) []string {
	f, t := &d.Figure, d.Figure.Of(&d.Total)
	format := comparedFormat(f)
	return []string{
		comparedAmount(f, &d.Total, was) + " before", comparedAmount(f, &d.Total, is) + " after",
		signed(t.Change(), format) + unsure(d.Partial()) + plusMinus(t.ChangeSE(), format),
		"which is " + format(t.Grown) + unsure(d.Unsure) + " grown less " + format(t.Shrunk) + unsure(d.Unsure) + " shrunk",
	}
}

// unsure marks a change that may be smaller: one Report leaves a part of it out.
func unsure(is bool) string {
	if is {
		return "?"
	}
	return ""
}

// comparedSites counts the sites by what became of them.
func comparedSites(t *compare.Tally) string {
	part := func(n int, what string) string { return count(uint64(n)) + " " + what }
	text := part(t.Grown, "grew")
	if t.New > 0 {
		text += " (" + part(t.New, "of them new)")
	}
	text += ", " + part(t.Shrunk, "shrank")
	if t.Gone > 0 {
		text += " (" + part(t.Gone, "of them gone)")
	}
	text += ", " + part(t.Unchanged, "unchanged")
	if n := t.UnlistedBefore + t.UnlistedAfter; n > 0 {
		text += "; new or gone or neither, as a Report leaves sites out: " + count(uint64(n))
	}
	return text
}

// comparedRest says what rows hold that are not shown.
func comparedRest(d *compare.Diff, rest *compare.Rest) string {
	f, format := &d.Figure, comparedFormat(&d.Figure)
	of := f.Of(&rest.Sum)
	return fmt.Sprintf("%s that changed: %s grown, %s shrunk, %s before, %s after (--top 0 shows all)", more(d, rest.Rows),
		format(of.Grown), format(of.Shrunk), comparedAmount(f, &rest.Sum, was), comparedAmount(f, &rest.Sum, is))
}

func more(d *compare.Diff, n int) string {
	plural := "s"
	if d.ByProcess() {
		plural = "es"
	}
	return counted(uint64(n), "more "+d.By, "more "+d.By+plural)
}

// comparedSame says what the rows hold that did not change.
func comparedSame(d *compare.Diff, same *compare.Rest) string {
	return "unchanged: " + strings.Replace(more(d, same.Rows), "more ", "", 1) + " with " + comparedAmount(&d.Figure, &same.Sum, is)
}

// comparedSampling are the words on each Report that was sampled.
func comparedSampling(d *compare.Diff) (out []string) {
	for _, s := range []struct {
		when string
		of   *report.Sampling
	}{{"before", d.Before.Report.Sampling}, {"after", d.After.Report.Sampling}} {
		if s.of == nil {
			continue
		}
		var steps []string
		for _, bytes := range s.of.Intervals {
			steps = append(steps, size(bytes))
		}
		out = append(out, "Sampled "+s.when+": one hit every "+strings.Join(steps, ", then ")+" on average, which chose "+counted(s.of.Blocks, "block", "blocks")+".")
	}
	switch {
	case out == nil:
	case d.HasErrors():
		out = append(out, "Figures are estimates; ± is one standard error of a change.")
	default:
		out = append(out, "Figures are estimates; how near those of this kind are is not known.")
	}
	return out
}
