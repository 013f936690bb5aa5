package query

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/render"
)

// Formats lists what Write writes.
func Formats() []string { return []string{"text", "json", "csv"} }

// Write writes a Result in a format of Formats. Notes are in JSON alone: who shows the other formats tells them
// beside these. A table of the text fits a terminal of width columns; with 0 nothing of it is left out.
func Write(w io.Writer, r *Result, format string, width int) error {
	var out []byte
	var err error
	switch format {
	case "json":
		out, err = render.EncodeJSON(r, "  ", false)
	case "csv":
		out = render.EncodeCSV(r.table(false))
	default:
		out = r.text(width)
	}
	if err == nil {
		_, err = w.Write(out)
	}
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// text is a line on all blocks, and a table.
func (r *Result) text(width int) []byte {
	var b strings.Builder
	b.WriteString(r.summary())
	if rows := r.table(true); len(rows) > 1 {
		b.WriteString("\n")
		writeFitted(&b, rows, r.By, width)
	}
	for _, line := range r.left() {
		b.WriteString(line + "\n")
	}
	return []byte(b.String())
}

// writeFitted writes a table whose last column is what groups go by.
func writeFitted(b *strings.Builder, rows [][]string, by string, width int) {
	cut := cutEnd
	if by == "file" || by == "module" {
		cut = cutBeginning
	}
	rows, gap := fitTable(rows, width, cut)
	writeTable(b, rows, strings.Repeat(" ", gap))
}

// summary says what all blocks that fulfil the query come to.
func (r *Result) summary() string {
	t := &r.Total
	what := "Of all blocks"
	if strings.TrimSpace(r.Expression) != "" {
		what = render.CleanLines(strings.Join(strings.Fields(r.Expression), " "))
	}
	span := "from " + humanTime(r.FromNS) + " to " + humanTime(r.ToNS)
	if r.FromNS == r.ToNS {
		span = "at " + humanTime(r.ToNS)
	}
	out := fmt.Sprintf("%s, %s: %s of %s", what, span, blocks(t.Count), humanBytes(t.Bytes))
	if t.Estimate != nil {
		out += fmt.Sprintf(" (estimates from %s samples: ±%s, ±%s)", grouped(t.Estimate.Samples), blocks(t.Estimate.CountSE), humanBytes(t.Estimate.BytesSE))
	}
	out += fmt.Sprintf("; %s live with %s", grouped(t.LiveCount), humanBytes(t.LiveBytes))
	if t.LeakedCount > 0 {
		out += fmt.Sprintf(", %s leaked with %s", grouped(t.LeakedCount), humanBytes(t.LeakedBytes))
	}
	return out + "\n"
}

// left says what is not in the table.
func (r *Result) left() (out []string) {
	if r.Omitted > 0 {
		what := map[bool]string{true: "events", false: "blocks"}[r.Events != nil]
		line := fmt.Sprintf("… and %s more %s", grouped(r.Omitted), what)
		if r.Rest != nil {
			line = fmt.Sprintf("… and %s more groups, of %s of %s", grouped(r.Omitted), blocks(r.Rest.Count), humanBytes(r.Rest.Bytes))
		}
		out = append(out, line+" (--top 0 shows more)")
	}
	if r.NoRoom != nil {
		out = append(out, fmt.Sprintf("… and %s of %s, of more groups than there is room for", blocks(r.NoRoom.Count), humanBytes(r.NoRoom.Bytes)))
	}
	return out
}

// writeTable aligns columns: the last one to the left, the others to the right. Cells of names are clean.
func writeTable(b *strings.Builder, rows [][]string, gap string) {
	width := make([]int, len(rows[0]))
	for i := range width {
		width[i] = columnWidth(rows, i)
	}
	for _, row := range rows {
		last := len(row) - 1
		for i, cell := range row[:last] {
			b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)) + cell + gap)
		}
		b.WriteString(row[last] + "\n")
	}
}

func blocks(n uint64) string {
	if n == 1 {
		return "1 block"
	}
	return grouped(n) + " blocks"
}

// grouped is a number with commas.
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
