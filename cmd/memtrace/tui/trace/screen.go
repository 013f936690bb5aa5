package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// Options of a Screen.
type Options struct {
	Interval time.Duration // at which Reports come
	Sort     string        // a word of --sort; "": live
	By       string        // a word of report.Groupings; "": site
	Colour   bool
	Getenv   func(string) string // os.Getenv: for the locale; nil: UTF-8
	BackTo   string              // what the terminal shows after the trace; "": the shell
	Keyless  bool                // no keys come: the terminal's input is somebody else's
	// End ends the trace, SetInterval has Reports come at another interval. Both return
	// at once and may be nil.
	End         func()
	SetInterval func(time.Duration)
}

// view is one of the tables.
type view int

// The views, in the order of their keys.
const (
	sitesView view = iota
	leaksView
	mappedView
	poolsView
	processesView
	notesView
	threadsView
	views
)

// Screen is what a trace shows on a terminal.
type Screen struct {
	opt           Options
	theme         tui.Theme
	chars         *tui.Charset
	width, height int

	latest   *report.Report // nil: none yet
	shown    *report.Report // the latest, or that of the freeze
	shownAt  time.Time      // when it came
	latestAt time.Time
	// What threads have done by the latest Report, and by the shown one.
	latestThreads, threads []render.ThreadSum
	sampledThreads         bool
	history                history
	missed                 uint64 // Reports that could not be shown
	frozen                 bool

	view    view
	order   string // a word of --sort
	reverse bool
	by      string // a word of report.Groupings
	group   string // with by: the sites of this group alone; "": all
	filters [views]string
	list    list
	cursor  int    // in list
	first   int    // row at the top
	pinned  string // key of the row that the cursor stays with; "": it stays at its place

	page      func() []string // shown instead of the table; nil: the table
	pageFirst int
	below     int // lines of the page, or of the notes, that are below the screen
	prompting bool
	before    string // the filter, restored where the prompt is cancelled
	message   string
	ending    bool
}

// NewScreen returns a Screen of 80 × 24.
func NewScreen(o Options) *Screen {
	m := &Screen{
		opt: o, theme: tui.PlainTheme, chars: &tui.Unicode, width: 80, height: 24,
		order: cmp.Or(o.Sort, orders[0]), by: cmp.Or(o.By, report.BySite),
	}
	if o.Colour {
		m.theme = tui.ColourTheme
	}
	if o.Getenv != nil {
		m.chars = tui.CharsFor(o.Getenv)
	}
	return m
}

// Show takes the next Report, which came at that time and must not change any more.
// missed is how many before it could not be shown.
func (m *Screen) Show(r *report.Report, at time.Time, missed uint64) {
	m.history.add(r)
	m.latest, m.latestAt, m.missed = r, at, missed
	if !m.frozen {
		m.thaw()
	}
}

// thaw shows the latest Report.
func (m *Screen) thaw() {
	m.shown, m.shownAt, m.threads = m.latest, m.latestAt, m.latestThreads
	m.build()
}

// Resize lays the screen out for another size.
func (m *Screen) Resize(width, height int) {
	m.width, m.height = max(width, 1), max(height, 1)
	m.clamp()
}

// build makes the rows of the view.
func (m *Screen) build() {
	if m.shown == nil {
		return
	}
	m.list = m.rowsOf(m.view)
	if m.pinned != "" {
		if i := slices.Index(m.list.keys, m.pinned); i >= 0 {
			m.cursor = i
		}
	}
	m.clamp()
}

// clamp keeps the cursor in the table and on the screen.
func (m *Screen) clamp() {
	n, rows := len(m.list.keys), m.rows()
	m.cursor = min(max(m.cursor, 0), max(n-1, 0))
	m.first = min(max(m.first, m.cursor-rows+1), m.cursor)
	m.first = max(min(m.first, n-rows), 0)
}

// headHeight is the number of lines above the table: fewer where the terminal is low.
func (m *Screen) headHeight() int {
	switch {
	case m.height < 6:
		return 1
	case m.height < 12:
		return 3
	case m.height < 18:
		return 4
	}
	return 5
}

// rows is how many rows fit under a heading and above the status line.
func (m *Screen) rows() int { return max(m.height-m.headHeight()-2, 1) }

// Lines draws the screen: as many lines as the terminal has, none of which is wider than it.
func (m *Screen) Lines(now time.Time) []string {
	lines := m.headLines()
	m.below = 0
	room := max(m.height-len(lines)-1, 0)
	switch {
	case m.page != nil:
		lines = append(lines, m.pageLines(room)...)
	case m.view == notesView && m.shown != nil:
		lines = append(lines, m.noteLines(room)...)
	default:
		lines = append(lines, m.tableLines(room)...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	if m.height > 1 {
		lines = append(lines[:m.height-1], m.statusLine(now))
	}
	return lines[:min(len(lines), m.height)]
}

// tableLines are the heading and the rows that fit, or why there are none.
func (m *Screen) tableLines(room int) []string {
	if m.shown == nil || room == 0 {
		return nil
	}
	if len(m.list.keys) == 0 {
		return firstLines(render.Prose(m.list.empty, m.width), room)
	}
	end := min(m.first+min(m.rows(), room), len(m.list.keys))
	t := m.list.table(m.first, end)
	lines := []string{tui.Styled(t.Head, m.theme.Heading)}
	for i, row := range t.Rows[:end-m.first] {
		if m.first+i == m.cursor && !m.opt.Keyless {
			row = tui.Styled(render.Pad(row, m.width, false), m.theme.Selected)
		}
		lines = append(lines, row)
	}
	return firstLines(append(lines, m.preview(room-len(lines))...), room)
}

// leastPreview is how many lines are worth a stack below the table: a blank one, a title, two frames.
const leastPreview = 4

// preview is the stack of the row under the cursor, where the table leaves room for it.
func (m *Screen) preview(room int) []string {
	if room < leastPreview || m.list.stack == nil || m.cursor >= len(m.list.keys) {
		return nil
	}
	title, s := m.list.stack(m.cursor)
	if s == nil {
		return nil
	}
	return append([]string{"", tui.Styled(render.Clip(title, m.width), m.theme.Heading)}, render.StackLines(s, m.width)...)
}

func firstLines(lines []string, n int) []string { return lines[:min(len(lines), n)] }

// noteLines are what was lost and warned of, from the line that was scrolled to.
func (m *Screen) noteLines(room int) []string {
	return m.scrolled(render.NoteLines(m.shown, m.width), room)
}

// scrolled is the part of lines that fits; it keeps the scroll position within them.
func (m *Screen) scrolled(lines []string, room int) []string {
	m.pageFirst = max(min(m.pageFirst, len(lines)-room), 0)
	m.below = max(len(lines)-m.pageFirst-room, 0)
	return firstLines(lines[m.pageFirst:], room)
}

// pageLines is the part of the page that fits; "# " begins a heading.
func (m *Screen) pageLines(room int) []string {
	lines := m.scrolled(m.page(), room)
	out := make([]string, len(lines))
	for i, line := range lines {
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			out[i] = tui.Styled(render.Clip(heading, m.width), m.theme.Heading)
			continue
		}
		out[i] = render.Clip(line, m.width)
	}
	return out
}

// statusLine is the last line: a prompt, a message, or how to end, how old the figures
// are, and what is chosen.
func (m *Screen) statusLine(now time.Time) string {
	switch {
	case m.ending:
		return render.Clip("ending: the result follows", m.width)
	case m.prompting:
		return m.promptLine()
	case m.message != "":
		return tui.Styled(render.Clip(render.Clean(m.message), m.width), m.theme.Warn)
	}
	return fitting(m.width, "  ", slices.Concat(m.keyWords(), m.more(), m.ages(now), m.chosen())...)
}

// keyWords say how to end the trace, and where keys are explained.
func (m *Screen) keyWords() []string {
	switch {
	case m.opt.Keyless:
		return []string{"Ctrl-C ends"}
	case m.page != nil:
		return []string{"Esc back", "q ends"}
	case m.opt.BackTo != "":
		return []string{"q back to " + m.opt.BackTo, "h help"}
	}
	return []string{"q ends", "h help"}
}

// more says that a page goes on below the screen, and which key shows it.
func (m *Screen) more() []string {
	if m.below == 0 {
		return nil
	}
	return []string{"↓ " + render.Counted(uint64(m.below), "more line", "more lines")}
}

// ages say how old the figures are, and those of pages where they are older.
func (m *Screen) ages(now time.Time) []string {
	if m.shown == nil {
		return []string{"first figures in " + m.opt.Interval.String()}
	}
	out := []string{"figures " + seconds(now.Sub(m.shownAt)) + " old"}
	oldest := uint64(0)
	for i := range m.shown.Processes {
		if p := &m.shown.Processes[i]; !p.Exited && p.Usage.SampledNS > 0 {
			oldest = max(oldest, m.shown.WindowNS-min(p.Usage.SampledNS, m.shown.WindowNS))
		}
	}
	if d := time.Duration(oldest); d > 2*m.opt.Interval && d > 2*time.Second {
		out = append(out, "RSS read "+seconds(d)+" before")
	}
	if m.missed > 0 {
		out = append(out, fmt.Sprintf("%d updates not shown: slow terminal", m.missed))
	}
	return out
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d s", max(d, 0)/time.Second) }

// chosen says where the cursor is, and what rows are chosen in which order.
func (m *Screen) chosen() []string {
	if m.shown == nil || m.page != nil || m.view == notesView {
		return nil
	}
	var out []string
	if n := len(m.list.keys); n > 0 {
		out = append(out, fmt.Sprintf("%d of %d", m.cursor+1, n))
	}
	if f := m.filters[m.view]; f != "" {
		out = append(out, "filter "+render.Clean(f)+" (Esc: all)")
	}
	if m.view == sitesView {
		if m.group != "" {
			out = append(out, "of "+m.by+" "+render.Clean(m.group)+" (Esc: all)")
		} else {
			out = append(out, "by "+m.by)
		}
		out = append(out, "sort "+m.orderWord())
	}
	return append(out, m.list.rest)
}

func (m *Screen) orderWord() string {
	if m.reverse {
		return "-" + m.order
	}
	return m.order
}

// promptLine is the filter as it is typed: its end, where it doesn't fit.
func (m *Screen) promptLine() string {
	line := "Filter: " + render.Clean(m.filters[m.view])
	for render.Columns(line) > m.width-1 && line != "" {
		_, line, _ = strings.Cut(line, string([]rune(line)[0]))
	}
	return line + "█"
}

// fitting strings together the parts that fit, with a gap between them.
func fitting(width int, gap string, parts ...string) string {
	line := ""
	for _, part := range parts {
		next := line + gap + part
		if line == "" {
			next = part
		}
		if part != "" && render.Columns(next) <= width {
			line = next
		}
	}
	return line
}
