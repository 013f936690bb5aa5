package top

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// key answers a key.
func (m *Screen) key(msg tea.KeyPressMsg) tea.Cmd {
	name := msg.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.prompting:
		return m.promptKey(msg)
	case m.helping:
		m.helpKey(name)
		return nil
	}
	m.message, m.failure = "", nil
	if m.move(name) {
		return nil
	}
	if len(name) == 1 && name[0] >= '1' && int(name[0]-'1') < len(views) {
		return m.show(views[name[0]-'1'].view)
	}
	return m.command(name)
}

// command answers the keys that are neither movements nor views.
func (m *Screen) command(name string) tea.Cmd {
	switch name {
	case "q":
		return tea.Quit
	case "h", "?", "f1":
		m.helping, m.helpFirst = true, 0
	case "tab":
		return m.show(views[(indexOf(m.view)+1)%len(views)].view)
	case "shift+tab":
		return m.show(views[(indexOf(m.view)+len(views)-1)%len(views)].view)
	case "<", ",", "left":
		return m.sortBeside(-1)
	case ">", ".", "right":
		return m.sortBeside(1)
	case "r", "R":
		by := m.order[m.view]
		m.order[m.view] = sorting{by.column, !by.reverse}
		m.build()
	case "c":
		m.options.command = (m.options.command + 1) % commandStyles
		m.build()
	case "/":
		m.prompting, m.prompt, m.before = true, m.options.filter.String(), m.options.filter
	case "esc":
		return m.back()
	case "space", "f":
		return m.freeze()
	case "+", "=":
		return m.step(1)
	case "-":
		return m.step(-1)
	case "t":
		return m.showOf(Threads)
	case "m":
		return m.showOf(Mappings)
	case "enter":
		return m.enter()
	}
	return nil
}

// move answers the keys that move the cursor.
func (m *Screen) move(name string) bool {
	page := m.page()
	switch name {
	case "up", "k":
		m.cursor--
	case "down", "j":
		m.cursor++
	case "pgup", "ctrl+b":
		m.cursor -= page
		m.first -= page
	case "pgdown", "ctrl+f":
		m.cursor += page
		m.first += page
	case "home", "g":
		m.cursor, m.first = 0, 0
	case "end", "G":
		m.cursor = len(m.rows)
	default:
		return false
	}
	m.clamp()
	m.pin()
	m.pinned = m.pinned && m.cursor > 0 // at the top it stays at the top
	return true
}

func (m *Screen) helpKey(name string) {
	switch name {
	case "up", "k":
		m.helpFirst--
	case "down", "j":
		m.helpFirst++
	case "pgup":
		m.helpFirst -= m.page()
	case "pgdown", "space":
		m.helpFirst += m.page()
	default:
		m.helping = false
	}
}

// promptKey edits the filter, which holds as it is typed.
func (m *Screen) promptKey(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "enter":
		m.prompting = false
		if _, err := ParseFilter(m.prompt); err != nil {
			m.message = err.Error()
		}
	case "esc":
		m.prompting = false
		m.setFilter(m.before)
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.prompt)
		m.prompt = m.prompt[:len(m.prompt)-n]
		m.typed("")
	case "ctrl+u":
		m.prompt = ""
		m.typed("")
	default:
		m.typed(msg.Text)
	}
	return nil
}

// maxPrompt bounds what may be pasted into the prompt.
const maxPrompt = 256

func (m *Screen) typed(s string) {
	if m.prompt += s; len(m.prompt) > maxPrompt {
		m.prompt = m.prompt[:maxPrompt]
	}
	if f, err := ParseFilter(m.prompt); err == nil {
		m.setFilter(f)
	}
}

func (m *Screen) setFilter(f Filter) {
	m.options.filter = f
	m.filters[m.view.filteredAs()] = f
	m.build()
}

// show changes the view.
func (m *Screen) show(v View) tea.Cmd {
	if infoOf(v).ofOne && !infoOf(m.view).ofOne {
		if id, ok := m.process(); ok && id != m.subject {
			m.subject = id
			delete(m.filters, Threads) // which were of another process
			delete(m.filters, Mappings)
		}
	}
	m.helping = false
	m.view, m.cursor, m.first, m.pinned = v, 0, 0, false
	m.options.filter = m.filters[v.filteredAs()]
	m.build()
	return m.read() // also where frozen: the view has nothing to show else
}

// showOf shows a view of the process under the cursor.
func (m *Screen) showOf(v View) tea.Cmd {
	if _, ok := m.process(); !ok {
		m.message = "no process is under the cursor: choose one in view 1"
		return nil
	}
	return m.show(v)
}

// process is that under the cursor, or the one whose threads or mappings are
// shown.
func (m *Screen) process() (ID, bool) {
	if infoOf(m.view).ofOne {
		return m.subject, m.subject.PID > 0
	}
	if m.table == nil || m.cursor >= len(m.rows) {
		return ID{}, false
	}
	id := m.table.ID(m.rows[m.cursor])
	return id, id.PID > 0
}

// back clears the filter, or goes back to the processes.
func (m *Screen) back() tea.Cmd {
	switch {
	case !m.options.filter.Empty():
		m.setFilter(Filter{})
	case m.view != Processes:
		return m.show(Processes)
	}
	return nil
}

func (m *Screen) freeze() tea.Cmd {
	m.frozen = !m.frozen
	if m.frozen {
		return nil
	}
	return m.read()
}

// step changes the interval.
func (m *Screen) step(by int) tea.Cmd {
	i := slices.IndexFunc(intervals, func(d time.Duration) bool { return d >= m.interval })
	if i < 0 {
		i = len(intervals) - 1
	}
	m.interval = intervals[min(max(i+by, 0), len(intervals)-1)]
	if m.frozen || m.reading {
		return nil
	}
	return m.tick()
}

// sortBeside sorts by the next column, whether it is on the screen or not.
func (m *Screen) sortBeside(by int) tea.Cmd {
	if m.table == nil || m.table.Fixed {
		return nil
	}
	n := len(m.table.Columns)
	i := m.table.column(m.order[m.view].column)
	for range n {
		if i = (i + by + n) % n; m.table.Columns[i].Unit != Bar {
			break
		}
	}
	return m.sortBy(i)
}

// sortBy sorts by a column; by the same one again the other way round.
func (m *Screen) sortBy(col int) tea.Cmd {
	name := m.table.Columns[col].Name
	was := m.shown()
	by := m.order[m.view]
	m.order[m.view] = sorting{name, by.column == name && !by.reverse}
	m.build()
	if m.frozen || slices.Contains(was, name) {
		return nil
	}
	return m.read() // it was not on the screen, so it may not have been read
}

// enter traces the process under the cursor, or shows the processes of what is.
func (m *Screen) enter() tea.Cmd {
	if id, ok := m.process(); ok {
		return m.traceProcess(id)
	}
	if m.table == nil || m.cursor >= len(m.rows) {
		return nil
	}
	word := ""
	switch m.view {
	case Programs:
		word = "name:" + m.table.ID(m.rows[m.cursor]).Name
	case Groups:
		word = "cgroup:" + m.table.ID(m.rows[m.cursor]).Name
	default:
		return nil
	}
	if first := strings.Fields(word); len(first) > 0 {
		word = first[0] // a filter's terms hold no blanks
	}
	f, err := ParseFilter(word)
	if err != nil {
		return nil
	}
	m.filters[Processes] = f
	return m.show(Processes)
}

// traceProcess runs a trace in this terminal, which it gets back afterwards.
func (m *Screen) traceProcess(id ID) tea.Cmd {
	if m.trace == nil {
		return nil
	}
	cmd, err := m.trace(id.PID, id.Start)
	if err != nil {
		m.message = err.Error()
		return nil
	}
	m.tracing(true)
	var said bytes.Buffer
	cmd.Stderr = &said
	return tea.ExecProcess(cmd, func(err error) tea.Msg { return tracedMsg{id.PID, err, said.String()} })
}

// traced says how a trace ended.
func (m *Screen) traced(msg tracedMsg) {
	m.tracing(false)
	if _, failed := msg.err.(*exec.ExitError); failed || msg.err != nil {
		said := strings.TrimSpace(msg.said)
		if said == "" {
			said = msg.err.Error()
		}
		m.failure = strings.Split(said, "\n")
		m.message = fmt.Sprintf("process %d could not be traced; any key goes on", msg.pid)
		return
	}
	m.message = fmt.Sprintf("traced process %d; its report is on the terminal once you quit", msg.pid)
}

// click answers the mouse: views, titles and rows.
func (m *Screen) click(msg tea.MouseClickMsg) tea.Cmd {
	if msg.Button != tea.MouseLeft || m.helping || m.prompting || m.table == nil {
		m.helping = false
		return nil
	}
	m.message, m.failure = "", nil
	top := m.headHeight() + len(m.notes())
	switch {
	case msg.Y == 2 && m.headHeight() == 3:
		if v, ok := m.tabAt(msg.X); ok {
			return m.show(v)
		}
	case msg.Y == top:
		return m.clickTitle(msg.X)
	case msg.Y > top && msg.Y-top-1 < len(m.visibleRows()):
		m.cursor = m.first + msg.Y - top - 1
		m.pin()
	}
	return nil
}

func (m *Screen) clickTitle(x int) tea.Cmd {
	for _, p := range m.placed() {
		if x >= p.x && x < p.x+p.width && m.table.Columns[p.column].Unit != Bar && !m.table.Fixed {
			return m.sortBy(p.column)
		}
	}
	return nil
}

// wheelRows is how far the wheel scrolls.
const wheelRows = 3

func (m *Screen) wheel(msg tea.MouseWheelMsg) {
	by := wheelRows
	switch msg.Button {
	case tea.MouseWheelUp:
		by = -wheelRows
	case tea.MouseWheelDown:
	default:
		return
	}
	if m.helping {
		m.helpFirst += by
		return
	}
	m.cursor += by
	m.first += by
	m.clamp()
	m.pin()
	m.pinned = m.pinned && m.cursor > 0
}
