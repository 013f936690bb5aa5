package render

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/analyzer/compare"
)

// comparisonMarkdown writes what changed for a comment on a change of code.
func comparisonMarkdown(d *compare.Diff, opt ComparisonOptions) []byte {
	var out strings.Builder
	title := comparedTitle(d)
	fmt.Fprintf(&out, "### memtrace: %s\n\n%s\n\n", markdownText(strings.TrimSuffix(title[0], ",")), markdownText(strings.Join(title[1:], " ")))
	fmt.Fprintf(&out, "- %s\n- Sites: %s\n", markdownText(strings.Join(comparedTotals(d), ", ")), markdownText(comparedSites(&d.Sites)))
	for _, text := range comparedSampling(d) {
		out.WriteString("- " + markdownText(text) + "\n")
	}
	for _, text := range d.Cautions {
		out.WriteString("- **Warning**: " + markdownText(text) + "\n")
	}
	changed, same := d.Changed()
	rows, rest := d.First(changed, opt.Top)
	if len(rows) == 0 {
		out.WriteString("\nNothing changed.\n")
	} else {
		out.WriteString(markdownChanges(d, rows))
	}
	if rest.Rows > 0 {
		out.WriteString("\nand " + markdownText(comparedRest(d, &rest)) + "\n")
	}
	if same.Rows > 0 {
		out.WriteString("\n" + markdownText(comparedSame(d, &same)) + "\n")
	}
	return []byte(out.String())
}

// markdownChanges is the table. Its columns are those of the text.
func markdownChanges(d *compare.Diff, rows []compare.Row) string {
	var out strings.Builder
	cols, _ := fitTable(comparedColumns(d, rows, 0), rows, 0)
	out.WriteString("\n")
	for _, c := range cols {
		out.WriteString("| " + strings.ToLower(c.title) + " ")
	}
	out.WriteString("| " + d.By + " |\n" + strings.Repeat("|--:", len(cols)) + "|---|\n")
	for i := range rows {
		for _, c := range cols {
			out.WriteString("| " + markdownText(c.cells[i]) + " ")
		}
		out.WriteString("| <code>" + markdownText(elide(comparedName(&rows[i]), markdownName)) + "</code>")
		if source := comparedSource(&rows[i]); source != "" {
			out.WriteString(" " + markdownText(elidePath(source, markdownName)))
		}
		out.WriteString(" |\n")
	}
	return out.String()
}
