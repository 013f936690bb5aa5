package query

import (
	"fmt"
	"path"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// humanBytes leaves whole bytes whole.
func humanBytes(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10) + " B"
	}
	return report.HumanBytes(float64(n))
}

func humanTime(ns uint64) string { return report.HumanTime(ns) }

// A figure writes numbers: as people read them, or exactly.
type figure struct{ human bool }

func (f figure) bytes(n uint64) string {
	if f.human {
		return humanBytes(n)
	}
	return strconv.FormatUint(n, 10)
}

func (f figure) count(n uint64) string {
	if f.human {
		return grouped(n)
	}
	return strconv.FormatUint(n, 10)
}

func (f figure) time(ns uint64) string {
	if f.human {
		return humanTime(ns)
	}
	return strconv.FormatUint(ns, 10)
}

// id is a number that is no amount; 0 is none.
func (f figure) id(n uint64) string {
	switch {
	case n == 0 && f.human:
		return "-"
	case n == 0:
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func (f figure) text(s string) string {
	switch {
	case s == "" && f.human:
		return "-"
	case f.human:
		return render.Clean(s)
	}
	return s
}

// table has a row of headings, then one for each thing that is listed.
func (r *Result) table(human bool) [][]string {
	f := figure{human}
	switch {
	case r.StepNS != 0:
		return r.stepTable(f)
	case r.By == None:
		return r.blockTable(f)
	case r.By == "":
		return r.eventTable(f)
	}
	return r.groupTable(f)
}

// headings are other ones for people.
func headings(f figure, human, exact []string) [][]string {
	if f.human {
		return [][]string{human}
	}
	return [][]string{exact}
}

func (r *Result) groupTable(f figure) [][]string {
	leaks := r.Total.LeakedCount > 0 || !f.human
	out := headings(f, []string{"BYTES", "COUNT", "LIVE", "LIVE COUNT", "FREED", "TEMP", "MEAN LIFE", "LONGEST"},
		[]string{"bytes", "count", "live_bytes", "live_count", "freed_count", "temporary_count", "mean_lifetime_ns", "max_lifetime_ns"})
	if leaks {
		out[0] = append(out[0], headings(f, []string{"LEAKED"}, []string{"leaked_bytes"})[0]...)
	}
	out[0] = append(out[0], headings(f, []string{groupHeading(r.By)}, []string{"bytes_se", "count_se", r.By})[0]...)
	for i := range r.Groups {
		g := &r.Groups[i]
		mean := f.time(g.MeanLifetimeNS)
		if g.Count == g.LiveCount {
			mean = f.text("")
		}
		row := []string{f.bytes(g.Bytes), f.count(g.Count), f.bytes(g.LiveBytes), f.count(g.LiveCount), f.count(g.FreedCount), f.count(g.TemporaryCount),
			mean, f.time(g.MaxLifetimeNS)}
		if leaks {
			row = append(row, f.bytes(g.LeakedBytes))
		}
		if !f.human {
			var e Estimate
			if g.Estimate != nil {
				e = *g.Estimate
			}
			row = append(row, f.count(e.BytesSE), f.count(e.CountSE))
		}
		out = append(out, append(row, g.title(f)))
	}
	return out
}

func groupHeading(by string) string {
	if by == "site" {
		return "FUNCTION < CALLERS"
	}
	up := []byte(by)
	for i, c := range up {
		if c >= 'a' && c <= 'z' {
			up[i] = c - 'a' + 'A'
		} else {
			up[i] = ' '
		}
	}
	return string(up)
}

// callersShown is how many callers of a site a table has.
const callersShown = 4

// title is what a group is called: of a site, with its place and callers.
func (g *Member) title(f figure) string {
	name := f.text(g.Key)
	if g.Site == nil {
		return name
	}
	for i := g.FunctionFrame; i < len(g.Stack); i++ {
		fr := g.Stack[i]
		if i == g.FunctionFrame {
			name += frameAt(f, fr)
			continue
		}
		if f.human && i > g.FunctionFrame+callersShown {
			return name + " < …"
		}
		name += " < " + f.text(frameName(fr))
		if !f.human {
			name += frameAt(f, fr)
		}
	}
	return name
}

// frameAt is where a frame is.
func frameAt(f figure, fr *report.Frame) string {
	switch {
	case fr.File != "" && fr.Line > 0:
		return fmt.Sprintf(" %s:%d", f.text(path.Base(fr.File)), fr.Line)
	case fr.Module != "":
		return " in " + f.text(path.Base(fr.Module))
	}
	return ""
}

func (r *Result) blockTable(f figure) [][]string {
	out := headings(f, []string{"ADDRESS", "SIZE", "BORN", "ENDED", "LIFETIME", "PID", "THREAD", "FREED BY", "KIND", "END", "FUNCTION"},
		[]string{"addr", "size", "born_ns", "ended_ns", "lifetime_ns", "pid", "thread", "free_thread", "kind", "ended_by", "realloc_chain", "temporary", "leak", "site", "function"})
	for i := range r.Blocks {
		b := &r.Blocks[i]
		ended := f.id(0)
		if b.EndedBy != "" {
			ended = f.time(b.EndedNS)
		}
		row := []string{fmt.Sprintf("%#x", b.Addr), f.bytes(b.Size), f.time(b.BornNS), ended, f.time(b.LifetimeNS), f.id(uint64(b.PID)),
			f.id(uint64(b.Thread)), f.id(uint64(b.FreeThread)), f.text(b.Kind), f.text(b.EndedBy)}
		if !f.human {
			row = append(row, f.count(uint64(b.Reallocs)), strconv.FormatBool(b.Temporary), b.Leak, strconv.Itoa(int(b.Site)))
		}
		out = append(out, append(row, f.text(b.Function)))
	}
	return out
}

func (r *Result) eventTable(f figure) [][]string {
	out := headings(f, []string{"TIME", "EVENT", "", "ADDRESS", "SIZE", "PID", "THREAD", "FUNCTION"}, []string{"time_ns", "event", "of", "addr", "size", "pid", "thread", "function"})
	for i := range r.Events {
		e := &r.Events[i]
		of := "birth"
		if e.End {
			of = "end"
		}
		at := f.time(e.TimeNS)
		if f.human {
			at = fmt.Sprintf("%.9f", float64(e.TimeNS)/1e9)
		}
		out = append(out, []string{at, f.text(e.Event), of, fmt.Sprintf("%#x", e.Addr), f.bytes(e.Size), f.id(uint64(e.PID)), f.id(uint64(e.Thread)), f.text(e.Function)})
	}
	return out
}

func (r *Result) stepTable(f figure) [][]string {
	out := headings(f, []string{"LIVE", "LIVE COUNT", "BORN", "BORN COUNT", "ENDED", "ENDED COUNT", "FROM"},
		[]string{"live_bytes", "live_count", "born_bytes", "born_count", "ended_bytes", "ended_count", "from_ns"})
	for i := range r.Steps {
		s := &r.Steps[i]
		out = append(out, []string{f.bytes(s.LiveBytes), f.count(s.LiveCount), f.bytes(s.BornBytes), f.count(s.BornCount), f.bytes(s.EndedBytes), f.count(s.EndedCount), f.time(s.FromNS)})
	}
	return out
}
