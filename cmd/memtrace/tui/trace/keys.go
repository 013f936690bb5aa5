package trace

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/report"
)

// intervals that + and - step through.
var intervals = []time.Duration{
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// groupings that g steps through.
var groupings = []string{report.BySite, "function", "caller", "file", "module", report.BySize}

// Key answers a key: its name, such as "q", "up" or "ctrl+c", and the text that it types.
func (m *Screen) Key(name, text string) {
	switch {
	case name == "ctrl+c":
		m.end()
		return
	case m.prompting:
		m.promptKey(name, text)
		return
	}
	m.message = ""
	if m.page != nil || m.view == notesView {
		if m.scroll(name) {
			return
		}
		if m.page != nil {
			m.pageKey(name)
			return
		}
	} else if m.move(name) {
		return
	}
	if len(name) == 1 && name[0] >= '1' && view(name[0]-'1') < views {
		m.look(view(name[0] - '1'))
		return
	}
	m.command(name)
}

// Say shows a message until the next key.
func (m *Screen) Say(text string) { m.message = text }

// Ending reports whether the user ended the trace.
func (m *Screen) Ending() bool { return m.ending }

func (m *Screen) end() {
	if m.ending = true; m.opt.End != nil {
		m.opt.End()
	}
}

// command answers the keys that are neither movements nor views by their number.
func (m *Screen) command(name string) {
	switch name {
	case "q":
		m.end()
	case "h", "?", "f1":
		m.open(func() []string { return helpText(m.width) })
	case "tab":
		m.look((m.view + 1) % views)
	case "shift+tab":
		m.look((m.view + views - 1) % views)
	case "l":
		m.look(leaksView)
	case "m":
		m.look(mappedView)
	case "p":
		m.look(poolsView)
	case "n":
		m.look(notesView)
	case "t":
		m.look(threadsView)
	case "space", "f":
		m.freeze()
	case "+", "=":
		m.step(1)
	case "-":
		m.step(-1)
	case "enter":
		if m.list.open != nil && m.cursor < len(m.list.keys) {
			m.list.open(m.cursor)
		}
	case "esc":
		m.back()
	default:
		m.arrange(name)
	}
}

// arrange answers the keys that change which rows there are, and their order.
func (m *Screen) arrange(name string) {
	switch name {
	case "s":
		m.order = next(orders, m.order)
	case "r":
		m.reverse = !m.reverse
	case "g":
		m.by, m.group = next(groupings, m.by), ""
	case "/":
		m.prompting, m.before = m.view != notesView, m.filters[m.view]
		return
	default:
		return
	}
	if m.view != sitesView {
		m.look(sitesView)
	}
	if !m.moved() {
		m.pinned = ""
	}
	m.build()
}

// moved reports whether the user has moved the cursor to a row, which it then stays with.
func (m *Screen) moved() bool { return m.pinned != "" }

func next(words []string, word string) string {
	return words[(slices.Index(words, word)+1)%len(words)]
}

// look changes the view.
func (m *Screen) look(v view) {
	m.view, m.cursor, m.first, m.pinned, m.pageFirst = v, 0, 0, "", 0
	m.build()
}

// back undoes the last choice: the filter, the group, the view.
func (m *Screen) back() {
	switch {
	case m.filters[m.view] != "":
		m.filters[m.view] = ""
	case m.view != sitesView:
		m.look(sitesView)
	case m.group != "":
		m.pinned, m.group = m.group, ""
	}
	m.build()
}

// move answers the keys that move the cursor. At the top it stays at the top, elsewhere with its row.
func (m *Screen) move(name string) bool {
	page := m.rows()
	switch name {
	case "up", "k":
		m.cursor--
	case "down", "j":
		m.cursor++
	case "pgup", "ctrl+b":
		m.cursor, m.first = m.cursor-page, m.first-page
	case "pgdown", "ctrl+f":
		m.cursor, m.first = m.cursor+page, m.first+page
	case "home":
		m.cursor, m.first = 0, 0
	case "end", "G":
		m.cursor = len(m.list.keys)
	default:
		return false
	}
	m.clamp()
	m.pinned = ""
	if m.cursor > 0 {
		m.pinned = m.list.keys[m.cursor]
	}
	return true
}

// scroll answers the keys that move in a page.
func (m *Screen) scroll(name string) bool {
	switch name {
	case "up", "k":
		m.pageFirst--
	case "down", "j":
		m.pageFirst++
	case "pgup", "ctrl+b":
		m.pageFirst -= m.rows()
	case "pgdown", "ctrl+f":
		m.pageFirst += m.rows()
	case "home":
		m.pageFirst = 0
	case "end", "G":
		m.pageFirst = 1 << 20 // what is drawn ends there
	default:
		return false
	}
	m.pageFirst = max(m.pageFirst, 0)
	return true
}

// pageKey answers the other keys where a page is open.
func (m *Screen) pageKey(name string) {
	switch name {
	case "q":
		m.end()
	case "space", "f":
		m.freeze()
	case "+", "=":
		m.step(1)
	case "-":
		m.step(-1)
	case "esc", "enter", "backspace", "h", "?", "f1":
		m.page, m.pageFirst = nil, 0
	}
}

// maxPrompt bounds what may be pasted into the prompt.
const maxPrompt = 256

// promptKey edits the filter, which holds as it is typed.
func (m *Screen) promptKey(name, text string) {
	f := m.filters[m.view]
	switch name {
	case "enter":
		m.prompting = false
	case "esc":
		m.prompting, f = false, m.before
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(f)
		f = f[:len(f)-n]
	case "ctrl+u":
		f = ""
	default:
		f += text
	}
	m.setFilter(f)
}

// Paste types text into the filter.
func (m *Screen) Paste(text string) {
	if m.prompting {
		m.setFilter(m.filters[m.view] + text)
	}
}

func (m *Screen) setFilter(f string) {
	m.filters[m.view] = f[:min(len(f), maxPrompt)]
	m.build()
}

func (m *Screen) freeze() {
	if m.frozen = !m.frozen; !m.frozen {
		m.thaw()
	}
}

// step changes the interval.
func (m *Screen) step(by int) {
	i := slices.IndexFunc(intervals, func(d time.Duration) bool { return d >= m.opt.Interval })
	if i < 0 {
		i = len(intervals) - 1
	}
	m.opt.Interval = intervals[min(max(i+by, 0), len(intervals)-1)]
	if m.opt.SetInterval != nil {
		m.opt.SetInterval(m.opt.Interval)
	}
}
