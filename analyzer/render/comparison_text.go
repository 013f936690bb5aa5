package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/report"
)

// comparisonText writes what changed for a person: totals, the rows in which most did, their stacks.
func comparisonText(d *compare.Diff, opt ComparisonOptions) []byte {
	p := &page{width: opt.Width, color: opt.Color}
	p.flow(bold, "", comparedTitle(d), " ")
	p.flow(plain, "", comparedTotals(d), ", ")
	p.flow(plain, "Sites: ", strings.SplitAfter(comparedSites(&d.Sites), " "), "")
	for _, text := range comparedSampling(d) {
		p.prose(plain, "", text)
	}
	for _, text := range d.Cautions {
		p.prose(warning, "Warning: ", text)
	}
	p.line(plain, "")
	changed, same := d.Changed()
	rows, rest := d.First(changed, opt.Top)
	addComparedTable(p, d, rows)
	if rest.Rows > 0 {
		p.prose(dim, "and ", comparedRest(d, &rest))
	}
	if same.Rows > 0 {
		p.prose(dim, "", comparedSame(d, &same))
	}
	addComparedStacks(p, d, rows, opt)
	return p.bytes()
}

func addComparedTable(p *page, d *compare.Diff, rows []compare.Row) {
	if len(rows) == 0 {
		p.line(bold, "Nothing changed")
		return
	}
	cols, room := fitTable(comparedColumns(d, rows, p.width), rows, p.width)
	if !d.BySite() {
		p.line(bold, tableTitles(cols)+strings.ToUpper(d.By))
		for i := range rows {
			name := elide(comparedName(&rows[i]), room)
			if d.By == "file" || d.By == "module" {
				name = elidePath(comparedName(&rows[i]), room)
			}
			p.line(plain, comparedCells(cols, i)+name)
		}
		return
	}
	sites := make([]report.Site, len(rows))
	for i := range rows {
		sites[i].Function = rows[i].Key
		if rows[i].Site != nil {
			sites[i] = *rows[i].Site
		}
	}
	nameWidth, fileWidth := splitRoom(sites, room)
	head := "FUNCTION"
	if fileWidth > 0 {
		head = pad(head, nameWidth, false) + " FILE"
	}
	p.line(bold, tableTitles(cols)+head)
	for i := range sites {
		line := elide(siteName(&sites[i]), nameWidth)
		if fileWidth > 0 {
			line = pad(line, nameWidth, false) + " " + elideLocation(siteFrame(&sites[i]), fileWidth)
		}
		p.line(plain, comparedCells(cols, i)+line)
	}
}

func comparedCells(cols []columnOf[compare.Row], i int) string {
	var b strings.Builder
	for _, c := range cols {
		b.WriteString(pad(c.cells[i], c.width, true) + " ")
	}
	return b.String()
}

// comparedColumns are the numeric columns. Of a single site, what grew and what shrank is the change.
func comparedColumns(d *compare.Diff, rows []compare.Row, width int) []columnOf[compare.Row] {
	format := shortCount
	switch {
	case d.Figure.Bytes && (width == 0 || width >= roomyTable):
		format = size
	case d.Figure.Bytes:
		format = shortSize
	}
	type row = compare.Row
	of := func(r *row) *compare.Delta { return d.Figure.Of(&r.Sum) }
	cols := []columnOf[row]{
		{title: "CHANGE", keep: 10, cell: func(r *row) string { return signed(of(r).Change(), format) + unsure(d.ChangeUnsure(r)) }},
		{title: "±", keep: 9, cell: func(r *row) string { return format(of(r).ChangeSE()) }},
		{title: "GREW", keep: 8, cell: func(r *row) string { return format(of(r).Grown) + unsure(r.Unsure) }},
		{title: "SHRANK", keep: 8, cell: func(r *row) string { return format(of(r).Shrunk) + unsure(r.Unsure) }},
		{title: "BEFORE", keep: 5, cell: func(r *row) string { return unlessUnlisted(r, compare.UnlistedBefore, format(of(r).Before)) }},
		{title: "AFTER", keep: 6, cell: func(r *row) string { return unlessUnlisted(r, compare.UnlistedAfter, format(of(r).After)) }},
		{title: "ΔCOUNT", keep: 4, cell: func(r *row) string { return signed(r.Count.Change(), shortCount) + unsure(d.ChangeUnsure(r)) }},
		{title: "STATE", keep: 7, cell: func(r *row) string { return stateWord(r.State) }},
		{title: "SITES", keep: 3, cell: func(r *row) string { return arrow(r.Sites) }},
		{title: "PROCS", keep: 3, cell: func(r *row) string { return arrow(r.Processes) }},
	}
	return slices.DeleteFunc(cols, func(c columnOf[row]) bool {
		switch c.title {
		case "±":
			return !d.HasErrors()
		case "GREW", "SHRANK", "SITES":
			return d.BySite()
		case "STATE":
			return !slices.ContainsFunc(rows, func(r row) bool { return r.State != compare.Stayed })
		case "PROCS":
			return !d.ByProcess()
		case "ΔCOUNT":
			return !d.Figure.Bytes || !d.Figure.Count
		}
		return false
	})
}

func unlessUnlisted(r *compare.Row, state compare.State, text string) string {
	if r.State == state {
		return "?"
	}
	return text
}

// stateWord is a State in a table.
func stateWord(s compare.State) string {
	switch s {
	case compare.Stayed:
		return ""
	case compare.UnlistedBefore:
		return "new?"
	case compare.UnlistedAfter:
		return "gone?"
	}
	return string(s)
}

// arrow is a number before and after, once where it stayed.
func arrow(n [2]int) string {
	if n[0] == n[1] {
		return fmt.Sprint(n[0])
	}
	return fmt.Sprintf("%d→%d", n[0], n[1])
}

// addComparedStacks adds the stacks of the rows in which most changed.
func addComparedStacks(p *page, d *compare.Diff, rows []compare.Row, opt ComparisonOptions) {
	if opt.Frames == 0 || opt.Stacks <= 0 {
		return
	}
	most, _ := d.First(rows, opt.Stacks)
	for i := range most {
		r := &most[i]
		if r.Site == nil {
			continue
		}
		p.line(plain, "")
		of := d.Figure.Of(&r.Sum)
		p.line(bold, fmt.Sprintf("%s  from %s to %s in", signed(of.Change(), comparedFormat(&d.Figure))+unsure(r.Unsure),
			unlessUnlisted(r, compare.UnlistedBefore, comparedAmount(&d.Figure, &r.Sum, was)),
			unlessUnlisted(r, compare.UnlistedAfter, comparedAmount(&d.Figure, &r.Sum, is))))
		addStack(p, r.Site, opt.Frames)
	}
}
