package query

import (
	"slices"
	"unicode/utf8"
)

// leastWanted are the columns that a narrow terminal has to do without, in the order in which they go.
var leastWanted = []string{"FREED BY", "PID", "FREED", "KIND"}

// nameRoom is how many letters of a name should be seen.
const nameRoom = 20

// fitTable makes the lines of a table at most so wide, where that can be: columns come closer, then the least wanted
// ones go, then the names in the last column are cut, by at most all but nameRoom letters. It returns the gap between
// columns, too. With width 0 nothing is changed.
func fitTable(rows [][]string, width int, cut func(string, int) string) ([][]string, int) {
	const wide, narrow = 2, 1
	last := len(rows[0]) - 1
	need := min(nameRoom, columnWidth(rows, last))
	if width == 0 || roomForLast(rows, width, wide) >= columnWidth(rows, last) {
		return rows, wide
	}
	gap := wide
	if roomForLast(rows, width, gap) < need {
		gap = narrow
	}
	for _, title := range leastWanted {
		if i := slices.Index(rows[0], title); i >= 0 && i < len(rows[0])-1 && roomForLast(rows, width, gap) < need {
			rows = without(rows, i)
		}
	}
	room := max(roomForLast(rows, width, gap), need)
	for _, row := range rows {
		row[len(row)-1] = cut(row[len(row)-1], room)
	}
	return rows, gap
}

// roomForLast is what the other columns leave to the last one.
func roomForLast(rows [][]string, width, gap int) int {
	for i := range rows[0][:len(rows[0])-1] {
		width -= columnWidth(rows, i) + gap
	}
	return width
}

func columnWidth(rows [][]string, i int) (width int) {
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[i]))
	}
	return width
}

func without(rows [][]string, column int) [][]string {
	for i := range rows {
		rows[i] = slices.Delete(rows[i], column, column+1)
	}
	return rows
}

// cutEnd keeps the beginning of a name.
func cutEnd(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// cutBeginning keeps the end of a path.
func cutBeginning(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return "…" + string(r[len(r)-width+1:])
	}
	return s
}
