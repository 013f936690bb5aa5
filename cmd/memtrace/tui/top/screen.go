package top

import (
	"cmp"
	"context"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// Options of a Screen.
type Options struct {
	Source    Source
	View      View
	PID       int // for views of one process
	Interval  time.Duration
	Sort      string // a column of View; empty: the view's own
	Reverse   bool
	Filter    Filter
	Threshold int64 // change of PSS, in bytes, from which on it is bold; 0: none
	Colour    bool
	Getenv    func(string) string // os.Getenv: for the locale
	// Trace makes the command that traces a process in the same terminal, or
	// says why not. It is called when the user asks for it.
	Trace func(pid int, start uint64) (*exec.Cmd, error)
	// Gone, if not nil, reports whether the terminal is no more: not everybody
	// gets a signal then.
	Gone func() bool
	// Tracing, if not nil, is told when a trace begins and has ended.
	Tracing func(bool)
}

// Intervals that + and - step through.
var intervals = []time.Duration{
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// Screen is the live terminal view: a tea.Model.
type Screen struct {
	source   Source
	trace    func(pid int, start uint64) (*exec.Cmd, error)
	tracing  func(bool)
	gone     func() bool
	interval time.Duration
	theme    tui.Theme
	options  options
	history  History

	view          View
	subject       ID // whose threads or mappings
	order         map[View]sorting
	filters       map[View]Filter // by View.filteredAs; the present view's is in options
	width, height int

	snapshot *Snapshot
	table    *Table
	rows     []int // of table, as sorted
	cursor   int   // in rows
	first    int   // the row at the top
	pinned   bool  // the cursor stays with its row rather than at its place
	at       ID    // the row under the cursor, where pinned

	reading    bool // a Read is under way
	again      bool // and another is wanted as soon as it has ended
	generation int  // of the timer: older ticks are void
	resizes    int  // so far
	frozen     bool
	helping    bool
	helpFirst  int
	prompting  bool
	prompt     string
	before     Filter // restored where the prompt is cancelled
	message    string
	failure    []string // what a trace said that failed; shown instead of the table
	err        error
	ctx        context.Context
}

// sorting is how a view is sorted.
type sorting struct {
	column  string
	reverse bool
}

// NewScreen returns the live view, for Run or a tea.Program.
func NewScreen(ctx context.Context, o Options) *Screen {
	m := &Screen{
		ctx: ctx, source: o.Source, trace: o.Trace, interval: o.Interval, view: o.View,
		subject: ID{PID: o.PID}, width: 80, height: 24, theme: tui.PlainTheme,
		options: options{filter: o.Filter, threshold: o.Threshold, chars: &tui.Unicode, command: withoutPath},
		order:   make(map[View]sorting), filters: map[View]Filter{o.View.filteredAs(): o.Filter},
	}
	if o.Getenv != nil {
		m.options.chars = tui.CharsFor(o.Getenv)
	}
	if o.Colour {
		m.theme = tui.ColourTheme
	}
	for _, v := range views {
		m.order[v.view] = sorting{column: v.sort}
	}
	if m.gone = o.Gone; m.gone == nil {
		m.gone = func() bool { return false }
	}
	by := m.order[o.View]
	m.order[o.View] = sorting{column: cmp.Or(o.Sort, by.column), reverse: o.Reverse}
	if m.tracing = o.Tracing; m.tracing == nil {
		m.tracing = func(bool) {}
	}
	return m
}

// messages of the Screen to itself.
type (
	tickMsg struct{ generation int }
	readMsg struct {
		snapshot *Snapshot
		err      error
	}
	repaintMsg struct{ resizes int }
	tracedMsg  struct {
		pid  int
		err  error
		said string
	}
)

// Init implements tea.Model.
func (m *Screen) Init() tea.Cmd { return m.read() }

// read takes a Snapshot for the view in another goroutine; one at a time.
func (m *Screen) read() tea.Cmd {
	if m.reading {
		m.again = true
		return nil
	}
	m.reading, m.again = true, false
	want := Want{View: m.view, PID: m.subject.PID, Start: m.subject.Start, Shown: m.shown()}
	return func() tea.Msg {
		s, err := m.source.Read(m.ctx, want)
		return readMsg{s, err}
	}
}

// shown are the columns on the screen; nil as long as there is nothing on it.
func (m *Screen) shown() []string {
	if m.table == nil || len(m.rows) == 0 {
		return nil
	}
	var names []string
	for _, p := range m.placed() {
		names = append(names, m.table.Columns[p.column].Name)
	}
	return names
}

// placed are the columns where they stand.
func (m *Screen) placed() []placed {
	return place(m.table, m.visibleRows(), m.width, m.table.column(m.order[m.view].column))
}

// tick asks for the next Snapshot after the interval.
func (m *Screen) tick() tea.Cmd {
	m.generation++
	generation := m.generation
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return tickMsg{generation} })
}

// Update implements tea.Model.
func (m *Screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m, m.resized(msg)
	case repaintMsg:
		if msg.resizes == m.resizes {
			return m, tea.ClearScreen
		}
	case tickMsg:
		if m.gone() {
			return m, tea.Quit
		}
		if msg.generation == m.generation && !m.frozen {
			return m, m.read()
		}
	case readMsg:
		return m, m.took(msg)
	case tracedMsg:
		m.traced(msg)
		return m, m.read()
	case tea.PasteMsg:
		if m.prompting {
			m.typed(msg.Content)
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.MouseClickMsg:
		return m, m.click(msg)
	case tea.MouseWheelMsg:
		m.wheel(msg)
	}
	return m, nil
}

// resized lays the screen out for another size.
func (m *Screen) resized(msg tea.WindowSizeMsg) tea.Cmd {
	m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	m.clamp()
	if m.snapshot == nil {
		return nil
	}
	// After a terminal became wider, the renderer takes what it draws right of
	// its old edge for blank, and never clears it (ultraviolet, Render syncs
	// added lines alone). Drawing all again, once it is wide, mends that.
	m.resizes++
	resizes := m.resizes
	repaint := tea.Tick(4*frame, func(time.Time) tea.Msg { return repaintMsg{resizes} })
	if m.frozen {
		return repaint
	}
	return tea.Batch(m.read(), repaint) // there may be room for columns that were not read
}

// took shows a Snapshot.
func (m *Screen) took(msg readMsg) tea.Cmd {
	m.reading = false
	if msg.err != nil {
		m.err = msg.err
		return tea.Quit
	}
	m.history.Add(msg.snapshot)
	m.snapshot = msg.snapshot
	if of := m.snapshot.Of; m.subject == (ID{PID: of.PID}) {
		m.subject.Start = of.Start // from now on it is this one
	}
	m.build()
	switch {
	case m.again:
		return m.read()
	case m.frozen:
		return nil
	}
	return m.tick()
}

// Err returns why the view ended, or nil where the user ended it.
func (m *Screen) Err() error { return m.err }

// build makes the table of the view and sorts it.
func (m *Screen) build() {
	if m.snapshot == nil {
		return
	}
	m.table = infoOf(m.view).table(m.snapshot, m.options)
	m.sortRows()
}

func (m *Screen) sortRows() {
	by := m.order[m.view]
	m.rows = m.table.order(m.table.column(by.column), by.reverse)
	if m.pinned {
		if i := slices.IndexFunc(m.rows, func(row int) bool { return m.table.ID(row) == m.at }); i >= 0 {
			m.cursor = i
		}
	}
	m.clamp()
}

// clamp keeps the cursor in the table and on the screen.
func (m *Screen) clamp() {
	m.cursor = min(max(m.cursor, 0), max(len(m.rows)-1, 0))
	page := m.page()
	m.first = min(max(m.first, m.cursor-page+1), m.cursor)
	m.first = max(min(m.first, len(m.rows)-page), 0)
}

// pin lets the cursor stay with its row from now on.
func (m *Screen) pin() {
	m.pinned = m.table != nil && m.cursor < len(m.rows)
	if m.pinned {
		m.at = m.table.ID(m.rows[m.cursor])
	}
}

// headHeight is the number of lines above the table's notes: fewer where the
// terminal is low.
func (m *Screen) headHeight() int {
	if m.height < 8 {
		return 1
	}
	return 3
}

// notes are the lines between head and table that there is room for.
func (m *Screen) notes() []string {
	if m.table == nil {
		return nil
	}
	return m.table.Notes[:min(len(m.table.Notes), max((m.height-m.headHeight())/3, 0))]
}

// page is how many rows fit.
func (m *Screen) page() int {
	return max(m.height-m.headHeight()-len(m.notes())-2, 1)
}

// visibleRows are those on the screen.
func (m *Screen) visibleRows() []int {
	if m.first >= len(m.rows) {
		return nil
	}
	return m.rows[m.first:min(m.first+m.page(), len(m.rows))]
}

// View implements tea.Model.
func (m *Screen) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	v.WindowTitle = "memtrace top"
	return v
}

// waitable is a Source that can be waited for.
type waitable struct {
	Source
	mu sync.Mutex
}

func (w *waitable) Read(ctx context.Context, want Want) (*Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Source.Read(ctx, want)
}

// frame is how long the renderer gathers changes. Frames come at the interval
// and after keys; ten a second are plenty and cost next to nothing while nothing
// changes.
const frame = 100 * time.Millisecond

// Run shows the view on the terminal until the user ends it or ctx is done. The
// Source is not in use any more when it returns.
func Run(ctx context.Context, o Options) error {
	source := &waitable{Source: o.Source}
	o.Source = source
	defer source.mu.Lock() // a Read may be under way; none begins after cancel
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	screen := NewScreen(ctx, o)
	_, err := tea.NewProgram(screen, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFPS(int(time.Second/frame))).Run()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = screen.Err()
	}
	return err
}
