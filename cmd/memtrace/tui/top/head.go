package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// headLines are the three lines that every view has: what is running, the
// machine's memory, and the views.
func (m *Screen) headLines() []string {
	return []string{m.titleLine(), m.memoryLine(), m.tabLine()}
}

func (m *Screen) titleLine() string {
	name := render.Clip("memtrace top", m.width)
	s := m.snapshot
	if s == nil {
		return tui.Styled(name, m.theme.Strong) + fitting(m.width-len(name), "  reading…")
	}
	var threads int64
	running := 0
	for i := range s.Processes {
		threads += max(s.Processes[i].Threads.N, 0)
		if s.Processes[i].State == 'R' {
			running++
		}
	}
	frozen := ""
	if m.frozen && m.width >= 24 {
		frozen = "  FROZEN"
	}
	line := fitting(m.width-len(name)-len(frozen),
		"  "+render.Clip(render.Clean(s.Host), 20),
		"  "+s.At.Format(time.TimeOnly),
		"  every "+m.interval.String(),
		fmt.Sprintf("  %s processes", render.ShortCount(uint64(len(s.Processes)))),
		fmt.Sprintf(", %s threads", render.ShortCount(uint64(threads))),
		fmt.Sprintf(", %d running", running))
	return tui.Styled(name, m.theme.Strong) + line + tui.Styled(frozen, m.theme.Warn)
}

// fitting strings parts together as long as they fit into width.
func fitting(width int, parts ...string) string {
	line := ""
	for _, part := range parts {
		if render.Columns(line)+render.Columns(part) > width {
			break
		}
		line += part
	}
	return line
}

// memoryLine shows the machine's memory as one bar, and its pressure.
func (m *Screen) memoryLine() string {
	if m.snapshot == nil {
		return ""
	}
	h := &m.snapshot.Machine
	used := h.Total.minus(h.Available)
	short := func(f Figure) string { return value(f, Bytes).String() }
	left := render.Clip(fmt.Sprintf("Mem %s of %s ", short(used), short(h.Total)), m.width)
	bar := m.options.chars.Bar(used.N, h.Total.N, min(max(min(m.width/8, 30), 6), m.width-len(left)))
	room := m.width - len(left) - render.Columns(bar)
	pressure := ""
	if h.PressureSome.Known() {
		pressure = fmt.Sprintf("  PSI %s some %s full", value(h.PressureSome, Percent), value(h.PressureFull, Percent))
	}
	trend := ""
	if len(m.history.used) > 1 {
		trend = "  " + m.options.chars.Sparkline(m.history.used, trendLength)
	}
	right := fitting(room, " available "+short(h.Available), "  swap "+short(h.SwapUsed)+" of "+short(h.SwapTotal), pressure, trend)
	return left + tui.Styled(bar, m.theme.Bar) + right
}

// tabLine lists the views with their keys.
func (m *Screen) tabLine() string {
	var b strings.Builder
	x := 0
	for i, v := range views {
		tab := strconv.Itoa(i+1) + " " + v.tab
		if x+len(tab) > m.width {
			break
		}
		if v.view == m.view {
			b.WriteString(tui.Styled(tab, m.theme.Tab))
		} else {
			b.WriteString(tab)
		}
		x += len(tab)
		if i < len(views)-1 && x+2 <= m.width {
			b.WriteString(strings.Repeat(" ", m.tabGap()))
			x += m.tabGap()
		}
	}
	return b.String()
}

// tabGap leaves one blank between tabs where two would not fit.
func (m *Screen) tabGap() int {
	if m.width < 82 {
		return 1
	}
	return 2
}

// tabAt returns the view whose tab is at column x.
func (m *Screen) tabAt(x int) (View, bool) {
	at := 0
	for i, v := range views {
		n := len(strconv.Itoa(i+1)) + 1 + len(v.tab)
		if x >= at && x < at+n {
			return v.view, true
		}
		at += n + m.tabGap()
	}
	return "", false
}

// statusLine is the last line: a prompt, a message, or the keys and what the
// figures cost.
func (m *Screen) statusLine() string {
	switch {
	case m.prompting:
		return m.promptLine()
	case m.message != "":
		return tui.Styled(render.Clip(render.Clean(m.message), m.width), m.theme.Warn)
	}
	var parts []string
	if !m.options.filter.Empty() {
		parts = append(parts, "filter "+render.Clean(m.options.filter.String())+" (Esc clears)")
	}
	parts = append(parts, "h help", m.position())
	if legend := m.legend(); legend != "" {
		parts = append(parts, legend)
	}
	if m.snapshot != nil {
		parts = append(parts, costParts(&m.snapshot.Cost)...)
	}
	parts = append(parts, "/ filter", "< > sort", "Enter trace", "q quit")
	return tui.Styled(fitting(m.width, spaced(parts)...), m.theme.Dim)
}

// promptLine shows what is typed, after as much of a hint as there is room for;
// of what is too long, the end, where typing goes on.
func (m *Screen) promptLine() string {
	typed := render.Clean(m.prompt) + "█"
	for _, hint := range []string{"Filter (name, pid:N, user:U, cgroup:C, !not): ", "Filter: "} {
		if render.Columns(hint)+render.Columns(typed) <= m.width {
			return hint + typed
		}
	}
	for render.Columns(typed) > m.width {
		_, n := utf8.DecodeRuneInString(typed)
		typed = typed[n:]
	}
	return typed
}

// spaced puts two blanks before all but the first of parts that aren't empty.
func spaced(parts []string) []string {
	var out []string
	for _, part := range parts {
		switch {
		case part == "":
		case len(out) == 0:
			out = append(out, part)
		default:
			out = append(out, "  "+part)
		}
	}
	return out
}

func (m *Screen) position() string {
	if m.table == nil || m.table.Len == 0 {
		return "0 rows"
	}
	return fmt.Sprintf("%d/%d", m.cursor+1, m.table.Len)
}

// legend explains the marks that are on the screen.
func (m *Screen) legend() string {
	if m.table == nil {
		return ""
	}
	for _, row := range m.visibleRows() {
		for col := range m.table.Columns {
			if m.table.Cell(row, col).State == Denied {
				return "? no permission (needs root)"
			}
		}
	}
	return ""
}

// costParts say what the figures on the screen cost.
func costParts(c *Cost) []string {
	var parts []string
	if c.Wall > 0 {
		parts = append(parts, fmt.Sprintf("own CPU %.1f%%", 100*c.CPU.Seconds()/c.Wall.Seconds()))
	}
	if n := c.Walked + c.Unchanged + c.Deferred; n > 0 {
		parts = append(parts, fmt.Sprintf("walked %d of %d", c.Walked, n))
	}
	if c.LongestHold > 0 {
		parts = append(parts, "longest hold "+c.LongestHold.Round(10*time.Microsecond).String())
	}
	if c.Deferred > 0 {
		parts = append(parts, fmt.Sprintf("%d over budget, oldest %s", c.Deferred, age(c.Oldest)))
	}
	return parts
}
