package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// column is one numeric column of the sites table.
type column = columnOf[report.Site]

// columnOf is one numeric column of a table whose rows are made of a T each.
type columnOf[T any] struct {
	title string
	// keep says how long the column survives on a narrow terminal: those
	// with the lowest number go first.
	keep int
	cell func(*T) string

	cells []string
	width int
}

const (
	roomyTable   = 110 // from this width on, sizes are written out ("1.23 MiB")
	minFunction  = 22  // columns that the function gets before number columns go
	wantFunction = 40  // columns of the function from which on its file is shown, too
)

// addSites adds the table of call sites and the count of those left out.
func addSites(p *page, r *report.Report, opt Options) {
	sites := shownSites(r, opt)
	if len(sites) == 0 {
		p.line(bold, "Sites: no allocation seen yet")
		addOmitted(p, r, sites, opt)
		return
	}
	addSiteRows(p, siteColumns(r, p.width), sites)
	addDoubtful(p, sites)
	addOmitted(p, r, sites, opt)
}

// addSiteRows adds a heading and a row for each of the sites.
func addSiteRows(p *page, cols []column, sites []report.Site) {
	cols, room := fitColumns(cols, sites, p.width)
	nameWidth, fileWidth := splitRoom(sites, room)
	p.line(bold, tableHead(cols, nameWidth, fileWidth))
	for i := range sites {
		p.line(plain, tableRow(cols, i, &sites[i], nameWidth, fileWidth))
	}
}

// residencyRead are the processes of which it was looked at least once where their blocks are: of others, 0 is no figure.
func residencyRead(r *report.Report) map[int]bool {
	read := make(map[int]bool, len(r.Processes))
	for i := range r.Processes {
		read[r.Processes[i].ID] = r.Processes[i].Heap.CorrelatedNS != 0
	}
	return read
}

// siteColumns are the numeric columns, in order; PID only where there are several.
func siteColumns(r *report.Report, width int) []column {
	bytes, live, resident := shortSize, "LIVE", "RES"
	if width == 0 || width >= roomyTable {
		bytes, resident = size, "RESIDENT"
	}
	type site = report.Site
	read := residencyRead(r)
	cols := []column{
		{title: "SITE", keep: 9, cell: func(s *site) string { return "#" + strconv.Itoa(s.ID) }},
		{title: live, keep: 10, cell: func(s *site) string { return bytes(s.LiveBytes) }},
		{title: "±", keep: 8, cell: func(s *site) string { return bytes(s.Estimate.LiveBytes()) }},
		{title: "SAMPLES", keep: 6, cell: func(s *site) string { return shortCount(s.Estimate.LiveOf()) }},
		{title: "COUNT", keep: 7, cell: func(s *site) string { return shortCount(s.LiveCount) }},
		{title: "Δ", keep: 8, cell: func(s *site) string { return signed(s.GrowthBytes, bytes) }},
		{title: resident, keep: 4, cell: func(s *site) string {
			if !read[s.Process] || s.Basis != "" {
				return "?"
			}
			return bytes(s.ResidentBytes)
		}},
		{title: "ALLOCS", keep: 6, cell: func(s *site) string { return shortCount(s.AllocCount) }},
		{title: "FREES", keep: 3, cell: func(s *site) string { return shortCount(s.FreeCount) }},
		{title: "TEMP", keep: 2, cell: func(s *site) string {
			if s.Basis != "" || s.FreesUnseen {
				return "?"
			}
			return percent(s.TemporaryCount, s.AllocCount)
		}},
		{title: "OLDEST", keep: 5, cell: func(s *site) string { return age(s) }},
	}
	if r.Basis == report.FirstTouchBasis {
		cols = touchColumns(cols)
	}
	if !estimated(r) {
		cols = slices.DeleteFunc(cols, func(c column) bool { return c.title == "±" || c.title == "SAMPLES" })
	}
	if len(r.Processes) > 1 {
		pid := column{title: "PID", keep: 8, cell: func(s *site) string { return strconv.Itoa(s.PID) }}
		cols = append([]column{pid}, cols...)
	}
	return cols
}

// touchColumns are those of sites whose blocks are pages, of which nobody knows when they were allocated.
func touchColumns(cols []column) []column {
	for i := range cols {
		switch cols[i].title {
		case "COUNT":
			cols[i].title = "PAGES"
		case "ALLOCS":
			cols[i].title = "TOUCHED"
		case "FREES":
			cols[i].title = "GONE"
		}
	}
	return slices.DeleteFunc(cols, func(c column) bool { return c.title == "TEMP" || c.title == "OLDEST" })
}

func age(s *report.Site) string {
	if s.Basis != "" {
		return "?"
	}
	return ageOf(s.LiveCount, s.OldestNS)
}

func ageOf(live, oldest uint64) string {
	if live == 0 {
		return "-"
	}
	return shortDuration(oldest)
}

// fitColumns fills in the cells and drops columns until the function has
// minFunction columns. It returns the room for function and file; 0 where the
// width has no limit.
func fitColumns(cols []column, sites []report.Site, width int) ([]column, int) {
	return fitTable(cols, sites, width)
}

// fitTable does so for any rows.
func fitTable[T any](cols []columnOf[T], rows []T, width int) ([]columnOf[T], int) {
	total := 0
	for i := range cols {
		c := &cols[i]
		c.width = columns(c.title)
		for j := range rows {
			text := c.cell(&rows[j])
			c.cells = append(c.cells, text)
			c.width = max(c.width, columns(text))
		}
		total += c.width + 1
	}
	if width == 0 {
		return cols, 0
	}
	for width-total < minFunction && len(cols) > 1 {
		least := 0
		for i := range cols {
			if cols[i].keep < cols[least].keep {
				least = i
			}
		}
		total -= cols[least].width + 1
		cols = append(cols[:least:least], cols[least+1:]...)
	}
	return cols, max(width-total, 1)
}

// splitRoom divides the room between function and file. A file width of 0
// leaves the file out; 0 for both is no limit.
func splitRoom(sites []report.Site, room int) (name, file int) {
	longestName, longestFile := columns("FUNCTION"), 0
	for i := range sites {
		longestName = max(longestName, columns(siteName(&sites[i])))
		longestFile = max(longestFile, columns(location(siteFrame(&sites[i]))))
	}
	switch {
	case longestFile == 0:
		return room, 0
	case room == 0:
		return longestName, longestFile
	case room < wantFunction:
		return room, 0
	}
	name = min(longestName, max(room-1-longestFile, room*3/5))
	return name, room - 1 - name
}

func tableHead(cols []column, nameWidth, fileWidth int) string {
	if fileWidth == 0 {
		return tableTitles(cols) + "FUNCTION"
	}
	return tableTitles(cols) + pad("FUNCTION", nameWidth, false) + " FILE"
}

// tableTitles are the titles of the numeric columns, which stand before a name.
func tableTitles[T any](cols []columnOf[T]) string {
	var b strings.Builder
	for _, c := range cols {
		b.WriteString(pad(c.title, c.width, true) + " ")
	}
	return b.String()
}

func tableRow(cols []column, i int, s *report.Site, nameWidth, fileWidth int) string {
	var b strings.Builder
	for _, c := range cols {
		b.WriteString(pad(c.cells[i], c.width, true) + " ")
	}
	name := elide(siteName(s), nameWidth)
	if fileWidth == 0 {
		return b.String() + name
	}
	return b.String() + pad(name, nameWidth, false) + " " + elideLocation(siteFrame(s), fileWidth)
}

// addOmitted counts what the table does not show. What those sites hold is the
// live heap less what the Report's processes' shown sites hold.
func addOmitted(p *page, r *report.Report, shown []report.Site, opt Options) {
	omitted := len(r.Sites) - len(shown) + r.SitesMore
	if omitted <= 0 {
		return
	}
	var live, blocks uint64
	for i := range r.Processes {
		live, blocks = live+r.Processes[i].Heap.LiveBytes, blocks+r.Processes[i].Heap.LiveCount
	}
	var held, heldBlocks uint64
	for i := range shown {
		held, heldBlocks = held+shown[i].LiveBytes, heldBlocks+shown[i].LiveCount
	}
	what := "site"
	if r.Tracer.Attach == report.NotTraced {
		what = "group"
	}
	text := "and " + counted(uint64(omitted), "more "+what, "more "+what+"s")
	switch {
	case opt.Held && live == held && blocks == heldBlocks:
		text = "and " + counted(uint64(omitted), what+" that holds", what+"s that hold") + " nothing (--sort alloc shows all)"
	case live >= held:
		text += " holding " + size(live-held)
	}
	p.line(dim, text)
}

// siteName is the site's function, or where it is if it has no name.
func siteName(s *report.Site) string {
	f := siteFrame(s)
	switch {
	case s.Group != nil:
		return groupName(s.Group)
	case s.Function != "" && !strings.HasPrefix(s.Function, "0x"):
		return clean(s.Function)
	case f != nil:
		return frameName(f)
	case s.Function != "":
		return clean(s.Function)
	}
	return "[no stack]"
}

// siteFrame is the frame that gave the site its name; nil without a stack.
func siteFrame(s *report.Site) *report.Frame {
	if i := s.NamingFrame(); i >= 0 {
		return s.Stack[i]
	}
	return nil
}

// frameName is the function, or "[libfoo.so+0x1234]" where there is no name.
func frameName(f *report.Frame) string {
	if f.Function != "" && !strings.HasPrefix(f.Function, "0x") {
		return clean(f.Function)
	}
	if f.Module != "" {
		return fmt.Sprintf("[%s+%#x]", clean(base(f.Module)), f.Offset)
	}
	if f.Function != "" {
		return "[" + clean(f.Function) + "]"
	}
	return "[unknown]"
}

func base(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// location is "file:line", or "" where the file is not known.
func location(f *report.Frame) string {
	if f == nil || f.File == "" {
		return ""
	}
	return clean(f.File) + lineSuffix(f)
}

func lineSuffix(f *report.Frame) string {
	if f.Line <= 0 {
		return ""
	}
	return ":" + strconv.Itoa(f.Line)
}

// elideLocation is location in at most width columns; the line number stays.
func elideLocation(f *report.Frame, width int) string {
	if f == nil || f.File == "" {
		return ""
	}
	line := lineSuffix(f)
	if width <= 0 {
		return clean(f.File) + line
	}
	if width <= len(line)+1 {
		return ""
	}
	return elidePath(clean(f.File), width-len(line)) + line
}
