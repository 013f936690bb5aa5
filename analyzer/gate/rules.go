package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/threshold"
)

// A Rule is one condition that fails a job.
type Rule struct {
	text   string
	kind   string  // of a leak; or
	figure *figure // that exceeds
	limit  threshold.Condition
	value  float64 // limit's, in the figure's unit
}

// String returns the rule as it was written.
func (r *Rule) String() string { return r.text }

// Rules are the conditions of a job. It fails if any is met.
type Rules []Rule

// ParseRules parses the values of --fail-on, each a list of kinds and limits
// separated by commas, such as "definite,leak>1MB". A rule given twice counts once.
func ParseRules(texts []string) (Rules, error) {
	var out Rules
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			rule, err := parseRule(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(out, func(r Rule) bool { return r.text == rule.text }) {
				out = append(out, rule)
			}
		}
	}
	return out, nil
}

func parseRule(text string) (Rule, error) {
	if slices.Contains(report.LeakKinds(), text) {
		return Rule{text: text, kind: text}, nil
	}
	if !strings.ContainsAny(text, "<>") {
		return Rule{}, fmt.Errorf("%.80q is none of %s, nor a limit such as leak>1MB (figures: %s)",
			text, strings.Join(report.LeakKinds(), ", "), strings.Join(Figures(), ", "))
	}
	c, err := threshold.Parse(text)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{text: c.String(), limit: c, figure: figureOf(c.Metric)}
	switch {
	case r.figure == nil:
		return r, fmt.Errorf("condition %.80q: %q is none of %s", text, c.Metric, strings.Join(Figures(), ", "))
	case c.Op.Falling():
		return r, fmt.Errorf("condition %.80q: a limit is an upper one: write %s>VALUE", text, c.Metric)
	case r.figure.kinds && c.Subject != "" && !slices.Contains(report.LeakKinds(), c.Subject):
		return r, fmt.Errorf("condition %.80q: %q is none of %s", text, c.Subject, strings.Join(report.LeakKinds(), ", "))
	}
	if r.value, err = r.figure.value(c.Value); err != nil {
		return r, fmt.Errorf("condition %.80q: %w", text, err)
	}
	return r, nil
}

// kinds are those of leaks that a rule is about.
func (r *Rule) kinds() []string {
	switch {
	case r.kind != "":
		return []string{r.kind}
	case r.figure.kinds && r.limit.Subject != "":
		return []string{r.limit.Subject}
	case r.figure.kinds:
		return []string{"definite", "indirect"}
	}
	return nil
}

// needsTrace reports whether a rule is about allocations.
func (r *Rule) needsTrace() bool { return r.figure == nil || r.figure.traced }

// NeedScan reports whether any rule takes a scan of the processes' memory.
func (r Rules) NeedScan() bool {
	return slices.ContainsFunc(r, func(r Rule) bool { return slices.ContainsFunc(r.kinds(), report.IsVerdict) })
}

// NeedBlocks reports whether any rule is about blocks or allocations, which a trace without probes does not see.
// Growth of a call site or a process is none.
func (r Rules) NeedBlocks() bool {
	return slices.ContainsFunc(r, func(r Rule) bool {
		if r.figure != nil {
			return r.figure.traced && r.figure.name != growthFigure
		}
		return slices.ContainsFunc(r.kinds(), func(kind string) bool { return kind != "growing" })
	})
}

// NeedFrees names the rules that take the time at which blocks are freed.
func (r Rules) NeedFrees() (out []string) {
	for i := range r {
		old := slices.Contains(r[i].kinds(), "old")
		if old || r[i].figure != nil && r[i].figure.frees {
			out = append(out, r[i].text)
		}
	}
	return out
}

// needCertainty reports whether any rule is about leaks that are certain: kinds of verdicts but "possible".
func (r Rules) needCertainty() bool {
	return slices.ContainsFunc(r, func(r Rule) bool {
		return slices.ContainsFunc(r.kinds(), func(kind string) bool {
			return report.IsVerdict(kind) && kind != "possible"
		})
	})
}

// NeedLeaks reports whether any rule is about leaks.
func (r Rules) NeedLeaks() bool {
	return slices.ContainsFunc(r, func(r Rule) bool { return len(r.kinds()) > 0 })
}

// NeedTrace reports whether any rule is about allocations.
func (r Rules) NeedTrace() bool {
	return slices.ContainsFunc(r, func(r Rule) bool { return r.needsTrace() })
}

// NeedAllocations reports whether any rule takes more of allocations than how fast a heap grows, which a Go program's own samples tell, too.
func (r Rules) NeedAllocations() bool {
	return slices.ContainsFunc(r, func(r Rule) bool { return r.needsTrace() && (r.figure == nil || r.figure.name != growthFigure) })
}

// OverTime names the rules that one look at a process cannot decide, as they
// are about what happens while it is traced.
func (r Rules) OverTime() (out []string) {
	for i := range r {
		candidates := slices.ContainsFunc(r[i].kinds(), func(kind string) bool { return !report.IsVerdict(kind) })
		if candidates || r[i].figure != nil && r[i].figure.overTime {
			out = append(out, r[i].text)
		}
	}
	return out
}
