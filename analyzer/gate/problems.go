package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// problems says why the rules cannot be relied on, by what the last Report
// says of itself. A job must not pass by what was not seen.
func (j *Judge) problems(r *report.Report) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(j.opt.Rules) == 0 {
		return nil
	}
	traced := j.opt.Rules.NeedTrace()
	var silent []string
	if traced {
		silent = j.goSilent(r)
		out = append(out, silent...)
	}
	if lost := r.Events.Lost; traced && lost > 0 {
		add("%d events were lost: a lost allocation may hide a leak, a lost free may make one up (give memtrace more CPU, or trace less)", lost)
	}
	if traced && r.Basis == "" && r.Tracer.Attach != report.NotTraced && r.Events.Alloc+r.Events.Realloc == 0 && !allocatedNothing(r) && !j.goTells(r) && len(silent) == 0 {
		add("no allocation was seen, so nothing was checked: the process allocated nothing meanwhile, or by functions that memtrace does not know (memtrace doctor -p PID shows what it would probe)")
	}
	if o := r.Overhead; traced && o != nil && o.PausedNS+o.NoneNS > 0 {
		what := "nothing"
		if o.NoneNS > 0 {
			what = "no allocation"
		}
		add("%s was seen for %s, to keep to --max-overhead: what was allocated before or meanwhile was not checked "+
			"(raise the limit, or leave it out)", what, seconds(o.PausedNS+o.NoneNS))
	}
	if p := r.Pressure; traced && p != nil {
		add("blocks were sampled for %s, as events came faster than memtrace could take them in: what leaked then may not have been seen (give memtrace more CPU, or trace less)", seconds(p.SampledNS))
	}
	if s := r.Shed; traced && s != nil && s.Blocks > 0 {
		add("%d blocks were not tracked, as memtrace had no memory left for them: what leaked of them was not seen (give it more by --memory, or trace less)", s.Blocks)
	}
	out = append(out, j.unjudged(r)...)
	if j.base == nil && j.needsWarmth() {
		add("the trace ended after %s, before the warm-up of %v was over", seconds(r.WindowNS), j.opt.WarmUp)
	}
	return out
}

// goTells reports whether all processes are Go programs whose own samples say what the rules need.
func (j *Judge) goTells(r *report.Report) bool {
	return !j.opt.Rules.NeedAllocations() && len(r.Processes) > 0 &&
		!slices.ContainsFunc(r.Processes, func(p report.Process) bool { return p.GoHeap == nil || p.GoHeap.Problem != "" })
}

// goSilent names the processes whose allocations are not traced and whose own samples could not be read.
func (j *Judge) goSilent(r *report.Report) (out []string) {
	for i := range r.Processes {
		p := &r.Processes[i]
		switch {
		case !p.Unprobed || j.opt.Rules.NeedAllocations() || p.Children > 0:
		case p.GoHeap == nil:
			out = append(out, fmt.Sprintf("process %d: how its heap grows is not known: no allocation of it is traced, and it has no Go heap profile", p.PID))
		case p.GoHeap.Problem != "":
			out = append(out, fmt.Sprintf("process %d: how its heap grows is not known: %s", p.PID, p.GoHeap.Problem))
		}
	}
	return out
}

// unjudged names the processes without a probe on free that seem to leak blocks of which nobody knows whether
// they were freed: a rule about leaks that are certain must not pass by them.
func (j *Judge) unjudged(r *report.Report) (out []string) {
	if !j.opt.Rules.needCertainty() {
		return nil
	}
	sums := make(map[int]report.LeakSum) // by process
	for i := range r.Leaks {
		if l := &r.Leaks[i]; l.Doubtful && !l.Known {
			sum := sums[l.Process]
			sum.Count += l.Count
			sum.Bytes += l.Bytes
			sums[l.Process] = sum
		}
	}
	for i := range r.Processes {
		p := &r.Processes[i]
		if sum := sums[p.ID]; p.FreeWalk != nil && sum.Count > 0 {
			out = append(out, fmt.Sprintf("process %d: %d blocks of %s that nothing points to could not be judged: they leaked, "+
				"or were freed, which the allocator's records did not tell (trace it with --probes full)",
				p.PID, sum.Count, showBytes(float64(sum.Bytes))))
		}
	}
	return out
}

// allocatedNothing reports whether the programs of a trace without any allocation
// had none to be seen: each was traced from its first instruction, and has no
// memory to speak of that an unknown allocator may have from the kernel.
func allocatedNothing(r *report.Report) bool {
	const loaders = 128 << 10 // the dynamic loader and the C library map some ten KiB for themselves
	return len(r.Processes) > 0 && !slices.ContainsFunc(r.Processes, func(p report.Process) bool {
		by := &p.RSSBy
		return p.Attached || p.Unprobed || p.Usage.SampledNS == 0 ||
			by.HeapLive+by.HeapOverhead+by.HeapBeforeAttach+by.AnonMmap > loaders
	})
}

// needsWarmth reports whether a rule counts only after the warm-up.
func (j *Judge) needsWarmth() bool {
	return slices.ContainsFunc(j.opt.Rules, func(r Rule) bool { return r.figure != nil || !report.IsVerdict(r.kind) })
}

// unmeasured says which rules there are no figures for, and marks them.
func (j *Judge) unmeasured(r *report.Report, done []report.RuleDone) (out []string) {
	if j.base == nil {
		return nil // which has been said
	}
	watched := r.WindowNS - min(r.WindowNS, uint64(j.opt.WarmUp))
	for i := range j.opt.Rules {
		why := cmp.Or(j.whyUnmeasured(i, watched), j.whyNotInSum(i, r), j.whyNotLookedAt(i, r))
		if why != "" && done[i].Status != report.RuleFailed {
			out = append(out, "--fail-on "+j.opt.Rules[i].text+": "+why)
			done[i].Status = report.RuleUnknown
		}
	}
	return out
}

func (j *Judge) whyUnmeasured(i int, watched uint64) string {
	rule := &j.opt.Rules[i]
	switch {
	case slices.Contains(rule.kinds(), "growing") && watched < uint64(j.opt.MinGrowth):
		return fmt.Sprintf("a trace of %s is too short to tell growth; it takes %v", seconds(watched), j.opt.MinGrowth)
	case rule.figure == nil || rule.figure.kinds || j.measured(i).known:
		return ""
	case rule.limit.Subject != "":
		return "no process of that name or ID was measured"
	case rule.figure.name == "growth":
		return fmt.Sprintf("there are fewer than %d Reports after the warm-up, too few to tell growth; trace for longer, or at a shorter --interval", minPoints)
	}
	return "it was not measured, as no process lived to its first --interval"
}

// whyNotInSum says why a limit was not measured in children that came after so
// many others that they are not listed one by one, "" if it was or there are none.
func (j *Judge) whyNotInSum(i int, r *report.Report) string {
	rule := &j.opt.Rules[i]
	if rule.figure == nil || rule.figure.kinds {
		return ""
	}
	children := 0
	for k := range r.Processes {
		children += r.Processes[k].Children
	}
	subject := rule.limit.Subject
	if children == 0 || subject == "" && rule.figure.summedChildren || strings.HasPrefix(subject, "pid:") {
		return "" // a process that is given by its ID is listed, or was not measured at all
	}
	return fmt.Sprintf("it was not measured in %d children, which came after so many others that they are summed up (check fewer processes at a time)", children)
}

// whyNotLookedAt says why growth is not known of a process without a probe on free, whose figures are those of
// the looks at it; "" if it is.
func (j *Judge) whyNotLookedAt(i int, r *report.Report) string {
	rule := &j.opt.Rules[i]
	figure := rule.figure != nil && rule.figure.name == growthFigure
	if !figure && !slices.Contains(rule.kinds(), "growing") {
		return ""
	}
	least := j.opt.MinLooks
	if figure {
		least = minPoints
	}
	for k := range r.Processes {
		p := &r.Processes[k]
		f := p.FreeWalk
		brief := p.TracedNS != 0 && p.TracedNS < uint64(j.opt.MinGrowth) // nor would a full trace tell
		asked := !figure || named(p, rule.limit.Subject)
		if f == nil || f.SeenSinceNS != 0 || f.Walks >= least || p.Children > 0 || brief || !asked {
			continue
		}
		return fmt.Sprintf("process %d was looked at %d times for what it had freed, and growth takes %d; "+
			"trace for longer, at a shorter --interval, or with --probes full", p.PID, f.Walks, least)
	}
	return ""
}

func seconds(ns uint64) string { return time.Duration(ns).Round(10 * time.Millisecond).String() }
