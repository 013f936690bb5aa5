package render

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addStacks adds the stacks of the first sites of the table.
func addStacks(p *page, r *report.Report, opt Options) {
	if opt.Frames == 0 || r.By != "" {
		return
	}
	sites := shownSites(r, opt)
	if opt.Stacks > 0 && opt.Stacks < len(sites) {
		sites = sites[:opt.Stacks]
	}
	for i := range sites {
		s := &sites[i]
		p.line(plain, "")
		p.line(bold, stackHead(r, s))
		addStack(p, s, opt.Frames)
	}
}

// stackHead says what the site of a stack holds.
func stackHead(r *report.Report, s *report.Site) string {
	live, one, many := " live in ", "block", "blocks"
	if r.Basis == report.FirstTouchBasis {
		live, one, many = " in ", "page", "pages"
	}
	return fmt.Sprintf("#%d  %s%s%s, of %s %s by", s.ID, size(s.LiveBytes), live, counted(s.LiveCount, one, many), count(s.AllocCount), r.Origin())
}

// addStack adds up to limit frames (less than 0: all), innermost first.
func addStack(p *page, s *report.Site, limit int) {
	if len(s.Stack) == 0 {
		p.line(plain, "    [no stack]")
		return
	}
	frames := s.Stack
	if limit > 0 && limit < len(frames) {
		frames = frames[:limit]
	}
	for i := range frames {
		p.line(plain, "    "+frameText(frames[i], max(p.width-4, min(p.width, 1))))
	}
	if left := len(s.Stack) - len(frames); left > 0 {
		p.line(dim, "    and "+counted(uint64(left), "more frame", "more frames"))
	}
	if s.FramePointers {
		p.line(dim, "    in part by frame pointers: code without call frame information; callers may be missing")
	}
	if s.Truncated {
		p.line(dim, "    the stack goes deeper than what was recorded")
	}
}

// frameText is "function (inlined) at file:line" or, without a file,
// "function in module", within width columns (0: no limit).
func frameText(f *report.Frame, width int) string {
	name := frameName(f)
	mark := ""
	if f.Inlined {
		mark = " (inlined)"
	}
	where, glue := location(f), " at "
	if where == "" && f.Module != "" && name[0] != '[' {
		where, glue = clean(f.Module), " in "
	}
	if where == "" {
		return elide(name, max(width-len(mark), 0)) + mark
	}
	if width <= 0 {
		return name + mark + glue + where
	}
	room := width - len(mark) - len(glue)
	nameWidth := min(columns(name), max(room-columns(where), room*3/5))
	if room < 16 || room-nameWidth < 8 {
		return elide(name, max(width-len(mark), 1)) + mark
	}
	if f.File != "" {
		where = elideLocation(f, room-nameWidth)
	} else {
		where = elidePath(where, room-nameWidth)
	}
	return elide(name, nameWidth) + mark + glue + where
}
