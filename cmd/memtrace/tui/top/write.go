package top

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// Schema is the version of the JSON document.
const Schema = "memtrace.top/1"

// Formats of Write.
func Formats() []string { return []string{"text", "json", "csv"} }

// WriteOptions say how a Snapshot is written.
type WriteOptions struct {
	View    View
	Format  string // one of Formats
	Sort    string // empty: the view's own
	Filter  Filter
	Width   int // of text; 0: as wide as it takes, with all columns
	Colour  bool
	Getenv  func(string) string // for the locale
	Reverse bool
}

// Write writes the view of s, in one Write.
func Write(w io.Writer, s *Snapshot, o WriteOptions) error {
	opt := options{filter: o.Filter}
	if o.Getenv != nil {
		opt.chars = tui.CharsFor(o.Getenv)
	}
	info := infoOf(o.View)
	t := info.table(s, opt)
	by := o.Sort
	if by == "" {
		by = info.sort
	}
	rows := t.order(t.column(by), o.Reverse)
	var b bytes.Buffer
	var err error
	switch o.Format {
	case "json":
		err = writeJSON(&b, s, t, rows, o)
	case "csv":
		writeCSV(&b, t, rows)
	default:
		t = t.settled(rows)
		writeText(&b, t, rows, t.column(by), o)
	}
	if err == nil {
		_, err = w.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the %s view: %w", o.View, err)
	}
	return nil
}

// wide stands for a terminal that has room for everything.
const wide = 1 << 20

func writeText(b *bytes.Buffer, t *Table, rows []int, sorted int, o WriteOptions) {
	th := tui.PlainTheme
	switch {
	case o.Colour:
		th = tui.ColourTheme
	default:
		th = tui.Theme{}
	}
	width := o.Width
	if width <= 0 {
		width = wide
	}
	for _, note := range t.Notes {
		fmt.Fprintln(b, render.Clip(render.Clean(note), width))
	}
	shown := place(t, rows, width, sorted)
	if n := len(shown); n > 0 && width == wide && shown[n-1].flex {
		shown[n-1].width = longest(t, rows, shown[n-1].column)
	}
	fmt.Fprintln(b, strings.TrimRight(headingLine(t, shown, sorted, o.Reverse, &th), " "))
	for _, row := range rows {
		fmt.Fprintln(b, strings.TrimRight(rowLine(t, row, shown, false, &th), " "))
	}
	if len(rows) == 0 {
		fmt.Fprintln(b, render.Clean(t.Empty))
	}
	for _, line := range legendOf(t, rows) {
		fmt.Fprintln(b, render.Clip(line, width))
	}
}

func longest(t *Table, rows []int, col int) int {
	n := len(t.Columns[col].Title)
	for _, row := range rows {
		n = max(n, render.Columns(t.Cell(row, col).String()))
	}
	return n
}

// legendOf explains the marks that stand in the rows.
func legendOf(t *Table, rows []int) []string {
	var seen [len(stateMarks)]bool
	atLeast, estimated, stale := false, false, false
	for _, row := range rows {
		for col := range t.Columns {
			v := t.Cell(row, col)
			seen[v.State] = true
			atLeast = atLeast || v.AtLeast
			estimated, stale = estimated || v.Estimated, stale || v.Stale
		}
	}
	var lines []string
	if seen[Denied] {
		lines = append(lines, "?  no permission: root, or CAP_SYS_PTRACE (from Linux 6.15 CAP_PERFMON), reads it")
	}
	if seen[Unread] {
		lines = append(lines, "…  not read, to stay within the stall budget (--stall-budget 0 reads everything)")
	}
	if atLeast {
		lines = append(lines, ">  at least: some parts could not be read")
	}
	if estimated {
		lines = append(lines, "~  the kernel only estimates it")
	}
	if stale {
		lines = append(lines, "~  read before the memory changed, to stay within the stall budget")
	}
	return lines
}

// writeCSV writes a heading of column names and a line per row: bytes and
// nanoseconds as integers, percentages with two decimals. A figure that is not
// known is written in words, and one that there is not is empty.
func writeCSV(b *bytes.Buffer, t *Table, rows []int) {
	columns := dataColumns(t)
	lines := make([][]string, 1, len(rows)+1)
	for _, col := range columns {
		lines[0] = append(lines[0], t.Columns[col].Name)
	}
	for _, row := range rows {
		line := make([]string, 0, len(columns))
		for _, col := range columns {
			line = append(line, csvCell(t.Cell(row, col)))
		}
		lines = append(lines, line)
	}
	b.Write(render.EncodeCSV(lines))
}

func csvCell(v Value) string {
	switch {
	case v.State == None:
		return ""
	case !v.Known():
		return v.State.String()
	case v.Unit == Text:
		return v.Text // render.EncodeCSV makes it harmless
	case v.Unit == Percent:
		return strconv.FormatFloat(float64(v.N)/100, 'f', 2, 64)
	}
	return strconv.FormatInt(v.N, 10)
}

// dataColumns are those that hold data rather than a drawing of it.
func dataColumns(t *Table) []int {
	var columns []int
	for i, c := range t.Columns {
		if c.Unit != Bar {
			columns = append(columns, i)
		}
	}
	return columns
}

// document is the JSON form of a view.
type document struct {
	Schema  string           `json:"schema"`
	View    View             `json:"view"`
	Time    time.Time        `json:"time"`
	Host    string           `json:"host"`
	Machine map[string]any   `json:"machine"`
	Columns []columnJSON     `json:"columns"`
	Rows    []map[string]any `json:"rows"`
	Nodes   []map[string]any `json:"nodes,omitempty"`
	Notes   []string         `json:"notes"`
	Cost    costJSON         `json:"cost"`
}

type columnJSON struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Doc  string `json:"doc"`
}

type costJSON struct {
	CPU         int64 `json:"cpu_ns"`
	Walked      int   `json:"walked"`
	Unchanged   int   `json:"unchanged"`
	Deferred    int   `json:"deferred"`
	LongestHold int64 `json:"longest_hold_ns"`
	Oldest      int64 `json:"oldest_ns"`
}

var unitNames = map[Unit]string{Text: "text", Bytes: "bytes", Change: "bytes", Count: "count", Plain: "number", Percent: "percent", Clock: "ns", Age: "ns"}

func writeJSON(b *bytes.Buffer, s *Snapshot, t *Table, rows []int, o WriteOptions) error {
	doc := document{
		Schema: Schema, View: o.View, Time: s.At, Host: render.ValidText(s.Host), Machine: machineJSON(&s.Machine),
		Columns: []columnJSON{}, Rows: []map[string]any{}, Notes: []string{},
		Cost: costJSON{int64(s.Cost.CPU), s.Cost.Walked, s.Cost.Unchanged, s.Cost.Deferred, int64(s.Cost.LongestHold), int64(s.Cost.Oldest)},
	}
	columns := dataColumns(t)
	for _, col := range columns {
		c := &t.Columns[col]
		doc.Columns = append(doc.Columns, columnJSON{c.Name, unitNames[c.Unit], c.Doc})
	}
	for _, row := range rows {
		doc.Rows = append(doc.Rows, rowJSON(t, row, columns))
	}
	doc.Notes = append(doc.Notes, t.Notes...)
	if o.View == NUMA {
		doc.Nodes = nodesJSON(s.Nodes)
	}
	text, err := render.EncodeJSON(doc, "", false)
	b.Write(text)
	return err
}

// rowJSON writes figures that are not known as null and says why in "unknown";
// "at_least", "estimated" and "stale" list the figures that are such.
func rowJSON(t *Table, row int, columns []int) map[string]any {
	out := make(map[string]any, len(columns))
	unknown := make(map[string]string)
	var atLeast, estimated, stale []string
	for _, col := range columns {
		name, v := t.Columns[col].Name, t.Cell(row, col)
		out[name] = jsonCell(v)
		if !v.Known() {
			unknown[name] = v.State.String()
		}
		if v.AtLeast {
			atLeast = append(atLeast, name)
		}
		if v.Estimated {
			estimated = append(estimated, name)
		}
		if v.Stale {
			stale = append(stale, name)
		}
	}
	if len(unknown) > 0 {
		out["unknown"] = unknown
	}
	if len(atLeast) > 0 {
		out["at_least"] = atLeast
	}
	if len(estimated) > 0 {
		out["estimated"] = estimated
	}
	if len(stale) > 0 {
		out["stale"] = stale
	}
	return out
}

func jsonCell(v Value) any {
	switch {
	case !v.Known():
		return nil
	case v.Unit == Text:
		return render.ValidText(v.Text)
	case v.Unit == Percent:
		return float64(v.N) / 100
	}
	return v.N
}

func machineJSON(h *Machine) map[string]any {
	return map[string]any{
		"total": jsonCell(value(h.Total, Bytes)), "available": jsonCell(value(h.Available, Bytes)),
		"swap_total": jsonCell(value(h.SwapTotal, Bytes)), "swap_used": jsonCell(value(h.SwapUsed, Bytes)),
		"psi_some_avg10": jsonCell(value(h.PressureSome, Percent)), "psi_full_avg10": jsonCell(value(h.PressureFull, Percent)),
	}
}

func nodesJSON(nodes []Node) []map[string]any {
	out := []map[string]any{}
	for i := range nodes {
		n := &nodes[i]
		cells := map[string]any{"node": n.ID}
		for name, f := range map[string]Figure{
			"total": n.Total, "free": n.Free, "used": n.Used, "file": n.File, "anon": n.Anon,
			"shmem": n.Shmem, "slab": n.Slab, "huge_pages": n.HugeTotal, "huge_pages_free": n.HugeFree,
		} {
			cells[name] = jsonCell(value(f, Bytes))
		}
		out = append(out, cells)
	}
	return out
}
