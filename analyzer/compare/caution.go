package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// cautions are what keeps the Reports from being compared as they stand.
func (d *Diff) cautions() (out []string) {
	for _, s := range []struct {
		when string
		*Side
	}{{"before", &d.Before}, {"after", &d.After}} {
		for _, text := range s.cautions(&d.Figure) {
			out = append(out, s.when+": "+text)
		}
	}
	return append(out, d.unlike()...)
}

// cautions are those of one Report.
func (s *Side) cautions(f *Figure) (out []string) {
	r := s.Report
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.Unknown != "" {
		say("%s: what it has of %s is not known, which is not the same as 0", s.Unknown, f.Kind)
	}
	if n := r.Events.Lost; n > 0 {
		say("%s lost, so that its figures may be wrong", counted(int(min(n, math.MaxInt)), "event"))
	}
	if s.Omitted > 0 {
		rest := "all of those stand under " + Unlisted
		if s.Partial {
			rest = "what those have is in no total"
		}
		say("it leaves out %s, so that the change of one that only the other Report lists is not known; "+
			"%s (save Reports by --top 0)", counted(s.Omitted, "site"), rest)
	}
	if g := r.Shed; g != nil && *g != (report.Shed{}) {
		say("to stay within --memory, %d allocations were counted under [all other sites] and %d blocks not tracked", g.Allocations, g.Blocks)
	}
	if o := r.Overhead; o != nil && o.PausedNS > 0 {
		say("nothing was traced for %s, to stay within --max-overhead", report.HumanTime(o.PausedNS))
	}
	if o := r.Overhead; o != nil && o.NoneNS > 0 {
		say("no allocation was traced for %s, to stay within --max-overhead", report.HumanTime(o.NoneNS))
	}
	if n := s.unnamed(); n > 0 {
		say("%s without names yet count as one", counted(n, "site"))
	}
	return out
}

// unnamed counts sites that were not named in time.
func (s *Side) unnamed() (n int) {
	for i := range s.Report.Sites {
		if s.Report.Sites[i].Function == report.NotNamedYet {
			n++
		}
	}
	return n
}

// unlike says in what the Reports were not made alike.
func (d *Diff) unlike() (out []string) {
	a, b := d.Before.Report, d.After.Report
	if x, y := intervals(a.Sampling), intervals(b.Sampling); x != y {
		out = append(out, fmt.Sprintf("the Reports were sampled differently: before %s, after %s", x, y))
	}
	if x, y := a.Tracer.Attach == report.NotTraced, b.Tracer.Attach == report.NotTraced; x != y {
		out = append(out, "one of the Reports was read from outside, without a trace: it has blocks by size and no stacks, so no site of one is in the other")
	}
	if x, y := attached(a), attached(b); x != y {
		out = append(out, fmt.Sprintf("%s was traced from the start of its program, and %s from an attach on: blocks from before that are unknown", either(y, "before", "after"), either(y, "after", "before")))
	}
	if x, y := a.WindowNS, b.WindowNS; d.Figure.Sums && (x/10*9 > y || y/10*9 > x) && !(whole(a) && whole(b)) {
		out = append(out, fmt.Sprintf("%s adds up from the attach on, and the traces took %s and %s", d.Figure.Kind, report.HumanTime(x), report.HumanTime(y)))
	}
	return out
}

// intervals says how blocks were chosen.
func intervals(s *report.Sampling) string {
	if s == nil || len(s.Intervals) == 0 {
		return "not at all"
	}
	var out []string
	for _, n := range s.Intervals {
		out = append(out, "every "+report.HumanBytes(float64(n)))
	}
	return strings.Join(out, ", then ")
}

// whole reports whether a trace has all that its processes ever did.
func whole(r *report.Report) bool {
	return !slices.ContainsFunc(r.Processes, func(p report.Process) bool { return p.Attached || !p.Exited })
}

func attached(r *report.Report) bool {
	return slices.ContainsFunc(r.Processes, func(p report.Process) bool { return p.Attached })
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func either(choice bool, yes, no string) string {
	if choice {
		return yes
	}
	return no
}
