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
	text, urgent := verdict(m.shown, m.width)
	text = render.Clip(text, m.width)
	if urgent {
		return tui.Styled(text, m.theme.Warn)
	}
	return text
}

// verdict is what to look at: what leaks, what grows, else what holds most. urgent says
// that it leaks or grows. Where width is too small, names are shortened before figures.
func verdict(r *report.Report, width int) (text string, urgent bool) {
	if l := worst(r.Leaks); l != nil {
		return leakVerdict(r, l, width), true
	}
	if r.Basis == report.FirstTouchBasis && len(r.Sites) == 0 {
		return "No new page touched yet since the attach", false
	}
	if unseen(r) && len(r.Sites) == 0 {
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
		live += r.Processes[i].HeapBytes()
	}
	if most.name != "live heap" && held.LiveBytes < rss/4 {
		return fmt.Sprintf("Nothing grows; most of RSS (%s) is %s%s", render.Percent(most.bytes, rss), most.name, advice[most.name]), false
	}
	if r.Basis == report.FirstTouchBasis {
		return around("Nothing grows; ", render.SiteName(&held), " touched most first: "+render.Size(held.LiveBytes), width), false
	}
	return around("Nothing grows; ", render.SiteName(&held), " holds most: "+render.Size(held.LiveBytes)+", "+
		render.Percent(held.LiveBytes, live)+" of the live heap", width), false
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

func leakVerdict(r *report.Report, l *report.Leak, width int) string {
	where := fmt.Sprintf("#%d", l.Site)
	if s := r.Site(l.Site); s != nil {
		where = render.SiteName(s)
	}
	one, several := "block", "blocks"
	if r.Basis == report.FirstTouchBasis {
		one, several = "page", "pages"
	}
	has := render.Size(l.Bytes) + " in " + render.Counted(l.Count, one, several)
	says := ": " + l.Kind + " leak of " + has
	switch {
	case l.Kind == "growing" && l.GrowthPerSecond > 0:
		says = ": +" + render.Size(l.GrowthPerSecond) + "/s, " + has
	case l.Kind == "growing":
		says = ": keeps growing, " + has
	case l.Kind == "old":
		says = ": " + has + " outlive what it freed, and more come"
	}
	return around("Look at ", where, says, width)
}

// leastName is how many columns of a name are worth showing.
const leastName = 12

// around is a name between two texts, shortened so that these fit.
func around(before, name, after string, width int) string {
	return before + render.Clip(name, max(width-render.Columns(before)-render.Columns(after), leastName)) + after
}
