package top

import (
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// placed is a column where it stands on the screen.
type placed struct {
	column int // of the Table
	x      int
	width  int
	flex   bool
}

// gap is the space between columns.
const gap = 1

// minFlex is the least width that the last column is given before others are
// left out for it.
const minFlex = 14

// place chooses the columns that fit into width columns of the terminal.
// Figures are never cut: rows are the visible ones, and a column is as wide
// as its widest figure. keep is the column that the table is sorted by.
func place(t *Table, rows []int, width, keep int) []placed {
	widths := make([]int, len(t.Columns))
	out := make([]bool, len(widths))
	for i, c := range t.Columns {
		widths[i] = columnWidth(t, rows, i)
		if c.Flex {
			widths[i] = max(c.Width, minFlex)
		}
	}
	for total(widths, out) > width {
		if !dropOne(t, out, keep) {
			break
		}
	}
	return placeKept(t, widths, out, width)
}

// minText is what a column of text may be narrowed to.
const minText = 8

// placeKept lays the columns out that were not left out. Those that still do
// not fit are narrowed where they are text, and left out where they are not.
func placeKept(t *Table, widths []int, out []bool, width int) []placed {
	var shown []placed
	x, over := 0, total(widths, out)-width
	for i, c := range t.Columns {
		w := widths[i]
		if c.Unit == Text && !c.Flex && over > 0 {
			narrowed := max(w-over, min(w, minText))
			over -= w - narrowed
			w = narrowed
		}
		if out[i] || x >= width || w > width-x && c.right() {
			continue
		}
		w = min(w, width-x)
		if c.Flex {
			w = width - x
		}
		shown = append(shown, placed{column: i, x: x, width: w, flex: c.Flex})
		x += w + gap
	}
	return shown
}

func columnWidth(t *Table, rows []int, col int) int {
	c := &t.Columns[col]
	w := max(c.Width, render.Columns(c.Title))
	if c.Unit == Text || c.Unit == Bar {
		return w
	}
	for _, row := range rows {
		w = max(w, len(t.Cell(row, col).String()))
	}
	return w
}

func total(widths []int, out []bool) int {
	n := -gap
	for i, w := range widths {
		if !out[i] {
			n += w + gap
		}
	}
	return n
}

// dropOne leaves out the column of the highest rank, the rightmost of several.
func dropOne(t *Table, out []bool, keep int) bool {
	worst := -1
	for i, c := range t.Columns {
		if !out[i] && i != keep && c.Rank > 0 && !c.Flex && (worst < 0 || c.Rank >= t.Columns[worst].Rank) {
			worst = i
		}
	}
	if worst < 0 {
		return false
	}
	out[worst] = true
	return true
}

// right reports whether a column is aligned to the right.
func (c *Column) right() bool { return c.Unit != Text && c.Unit != Bar }

// headingLine writes the titles; the column that the table is sorted by bears
// an arrow where there is room, and stands out.
func headingLine(t *Table, shown []placed, sorted int, reverse bool, th *tui.Theme) string {
	var b strings.Builder
	for i, p := range shown {
		c := &t.Columns[p.column]
		cell := render.Pad(render.Clip(c.Title, p.width), p.width, c.right())
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if p.column == sorted && !t.Fixed {
			b.WriteString(tui.Styled(withArrow(cell, c, reverse), th.Sorted))
		} else {
			b.WriteString(tui.Styled(cell, th.Heading))
		}
	}
	return b.String()
}

// withArrow puts the direction into a blank next to the title.
func withArrow(cell string, c *Column, reverse bool) string {
	arrow := "▼"
	if descending := c.Unit != Text && c.Unit != Plain; descending == reverse {
		arrow = "▲"
	}
	title := strings.TrimLeft(cell, " ")
	if blanks := len(cell) - len(title); blanks > 0 {
		return cell[:blanks-1] + arrow + title
	}
	if title = strings.TrimRight(cell, " "); len(title) < len(cell) {
		return title + arrow + cell[len(title)+1:]
	}
	return cell
}

// rowLine writes one row, without trailing blanks unless it is selected.
func rowLine(t *Table, row int, shown []placed, selected bool, th *tui.Theme) string {
	var b strings.Builder
	for i, p := range shown {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		b.WriteString(cell(t, row, p, selected, th))
	}
	if selected {
		return tui.Styled(b.String(), th.Selected)
	}
	return b.String()
}

func cell(t *Table, row int, p placed, selected bool, th *tui.Theme) string {
	c := &t.Columns[p.column]
	v := t.Cell(row, p.column)
	s := v.String()
	switch {
	case c.Path:
		s = render.ElidePath(s, p.width)
	case c.Unit == Text:
		s = render.Clip(s, p.width)
	}
	s = render.Pad(s, p.width, c.right())
	switch {
	case selected:
		return s // its own style covers the row
	case v.Strong:
		return tui.Styled(s, th.Strong)
	case !v.Known(), v.Stale:
		return tui.Styled(s, th.Dim)
	case c.Unit == Bar:
		return tui.Styled(s, th.Bar)
	}
	return s
}
