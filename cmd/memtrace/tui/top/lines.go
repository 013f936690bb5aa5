package top

import (
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// lines draws the screen: as many lines as the terminal has.
func (m *Screen) lines() []string {
	lines := m.headLines()[:m.headHeight()]
	switch {
	case m.helping:
		lines = append(lines, m.helpLines()...)
	case len(m.failure) > 0:
		lines = append(lines, m.failureLines()...)
	default:
		lines = append(lines, m.tableLines()...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	if m.height > 1 {
		lines = append(lines[:m.height-1], m.statusLine())
	}
	return lines[:min(len(lines), m.height)]
}

func (m *Screen) tableLines() []string {
	t := m.table
	if t == nil {
		return nil
	}
	var lines []string
	for _, note := range m.notes() {
		lines = append(lines, render.Clip(render.Clean(note), m.width))
	}
	rows := m.visibleRows()
	sorted := t.column(m.order[m.view].column)
	shown := m.placed()
	lines = append(lines, headingLine(t, shown, sorted, m.order[m.view].reverse, &m.theme))
	if len(rows) == 0 {
		return append(lines, render.Clip(render.Clean("  "+t.Empty), m.width))
	}
	for i, row := range rows {
		lines = append(lines, rowLine(t, row, shown, m.first+i == m.cursor && !t.Fixed, &m.theme))
	}
	return lines
}

// failureLines are what a trace said, broken into lines that fit.
func (m *Screen) failureLines() []string {
	lines := []string{""}
	for _, line := range m.failure {
		for line = render.Clean(line); render.Columns(line) > m.width; {
			head := strings.TrimSuffix(render.Clip(line, m.width), "…")
			if head == "" {
				break
			}
			lines = append(lines, head)
			line = line[len(head):]
		}
		lines = append(lines, render.Clip(line, m.width))
	}
	return lines
}

// helpLines is the part of the help page that fits.
func (m *Screen) helpLines() []string {
	all := helpText(m.view, m.width)
	room := max(m.height-m.headHeight()-1, 1)
	m.helpFirst = max(min(m.helpFirst, len(all)-room), 0)
	var lines []string
	for _, line := range all[m.helpFirst:min(m.helpFirst+room, len(all))] {
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			lines = append(lines, tui.Styled(render.Clip(heading, m.width), m.theme.Heading))
			continue
		}
		lines = append(lines, render.Clip(line, m.width))
	}
	return lines
}
