package trace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// verdictLine says what to look at first.
func (m *Screen) verdictLine() string {
	text, urgent := verdict(m.shown)
	text = render.Clip(text, m.width)
	if urgent {
		return tui.Styled(text, m.theme.Warn)
	}
	return text
}

// verdict is what to look at: what leaks, what grows, else what holds most. urgent says
// that it leaks or grows.
func verdict(r *report.Report) (text string, urgent bool) {
	if l := worst(r.Leaks); l != nil {
		return leakVerdict(r, l), true
	}
	if unseen(r) {
		return "Allocations are not seen; key m shows which mappings grow", false
	}
	rss, parts := rssParts(r)
	if rss == 0 || len(r.Sites) == 0 {
		return "Nothing allocated yet since the attach", false
	}
	most := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(a.bytes, b.bytes) })
	held := slices.MaxFunc(r.Sites, func(a, b report.Site) int { return cmp.Compare(a.LiveBytes, b.LiveBytes) })
	live := uint64(0)
	for i := range r.Processes {
		live += r.Processes[i].Heap.LiveBytes
	}
	if most.name != "live heap" && held.LiveBytes < rss/4 {
		return fmt.Sprintf("Nothing grows; most of RSS (%s) is %s%s", render.Percent(most.bytes, rss), most.name, advice[most.name]), false
	}
	return fmt.Sprintf("Nothing grows; %s holds most: %s, %s of the live heap", render.SiteName(&held),
		render.Size(held.LiveBytes), render.Percent(held.LiveBytes, live)), false
}

// advice is what shows more of a kind of RSS.
var advice = map[string]string{
	"heap before attach": ": allocated before memtrace came, so by whom is not known",
	"other anonymous":    " memory: key m",
	"overhead":           ": free memory that the allocator keeps",
}

// worst is the leak to look at first: what was proved, then what grows fastest, then what holds most.
func worst(leaks []report.Leak) *report.Leak {
	if len(leaks) == 0 {
		return nil
	}
	rank := func(l *report.Leak) int { return slices.Index(report.LeakKinds(), l.Kind) }
	worst := &leaks[0]
	for i := range leaks {
		l := &leaks[i]
		if cmp.Or(cmp.Compare(rank(worst), rank(l)), cmp.Compare(l.GrowthPerSecond, worst.GrowthPerSecond), cmp.Compare(l.Bytes, worst.Bytes)) > 0 {
			worst = l
		}
	}
	return worst
}

func leakVerdict(r *report.Report, l *report.Leak) string {
	where := fmt.Sprintf("#%d", l.Site)
	if s := r.Site(l.Site); s != nil {
		where = render.SiteName(s)
	}
	has := render.Size(l.Bytes) + " in " + render.Counted(l.Count, "block", "blocks")
	switch {
	case l.Kind == "growing" && l.GrowthPerSecond > 0:
		return "Look at " + where + ": +" + render.Size(l.GrowthPerSecond) + "/s, " + has
	case l.Kind == "growing":
		return "Look at " + where + ": keeps growing, " + has
	case l.Kind == "old":
		return "Look at " + where + ": " + has + " outlive what it freed, and more come"
	}
	return "Look at " + where + ": " + l.Kind + " leak of " + has
}
