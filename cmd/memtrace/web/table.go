package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

const (
	maxRows  = 10_000 // single blocks that are looked at
	maxShown = 200    // rows that a page is sent, unless it asks for more
	maxAsked = 2000
	maxStack = 64 // frames of a row
)

// A column is a figure of each row.
type column struct {
	Key   string `json:"key"`   // as JSON of report and query has it
	Title string `json:"title"` // for people
	Unit  string `json:"unit"`  // bytes, count, time, text, address
}

type tableDoc struct {
	By        string     `json:"by"`
	Columns   []column   `json:"columns"` // the first one is the key
	Rows      []tableRow `json:"rows"`
	Matching  int        `json:"matching"` // rows that there are, of which Rows are the first ones
	All       int        `json:"all"`      // before search
	Sort      string     `json:"sort"`     // key of a column
	Groupings []string   `json:"groupings"`
	Command   string     `json:"command"`
	Notes     []string   `json:"notes"`
}

type tableRow struct {
	Key   string        `json:"key"`
	Cells []float64     `json:"cells"` // of the columns after the first one
	Texts []string      `json:"texts,omitempty"`
	Stack []export.Step `json:"stack,omitempty"` // the process first
	More  int           `json:"more,omitempty"`  // frames that are left out
	exact []uint64

	process string          // what the stack's is called; "": the row has none
	frames  []*report.Frame // of which Stack is made where it is shown
}

// table answers with a table of a file.
func (s *Server) table(r *http.Request) (any, error) {
	doc, err := s.wholeTable(r)
	if err != nil {
		return nil, err
	}
	top, err := number(r.URL.Query(), "top", maxAsked)
	if err != nil {
		return nil, err
	}
	if top == 0 {
		top = maxShown
	}
	doc.Rows = doc.Rows[:min(len(doc.Rows), int(top))]
	for i := range doc.Rows {
		doc.Rows[i].finish()
	}
	return doc, nil
}

// finish makes what a page reads. Figures beyond 2^53 lose their last digits there; CSV has them.
func (r *tableRow) finish() {
	r.Key = export.Clip(r.Key)
	r.Cells = make([]float64, len(r.exact))
	for i, n := range r.exact {
		r.Cells[i] = float64(n)
	}
	if r.process != "" {
		r.Stack = export.StepsOf(r.process, r.frames)
	}
	if len(r.Stack) > maxStack {
		r.More, r.Stack = len(r.Stack)-maxStack, r.Stack[len(r.Stack)-maxStack:]
	}
}

// tableCSV answers with all rows as CSV.
func (s *Server) tableCSV(w http.ResponseWriter, r *http.Request) {
	doc, err := s.wholeTable(r)
	if err != nil {
		writeError(w, err)
		return
	}
	head := make([]string, 0, len(doc.Columns))
	for _, c := range doc.Columns {
		head = append(head, c.Key)
	}
	rows := [][]string{head}
	for _, one := range doc.Rows {
		row := append([]string{one.Key}, one.Texts...)
		for _, n := range one.exact {
			row = append(row, strconv.FormatUint(n, 10))
		}
		rows = append(rows, row)
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="memtrace-`+doc.By+`.csv"`)
	_, _ = w.Write(render.EncodeCSV(rows))
}

// wholeTable makes a table with all rows that have what is searched for, in their order.
func (s *Server) wholeTable(r *http.Request) (*tableDoc, error) {
	v := r.URL.Query()
	p, err := s.place(v)
	if err != nil {
		return nil, err
	}
	by, filter := cmp.Or(v.Get("by"), "site"), v.Get("filter")
	doc := &tableDoc{By: by, Notes: []string{}, Groupings: groupings(&p, filter)}
	if !slices.Contains(doc.Groupings, by) {
		return nil, errAsked{fmt.Errorf("by %q is none of %v", by, doc.Groupings)}
	}
	if p.asks(filter) || !slices.Contains(reportGroupings, by) {
		err = s.askedTable(r, p, filter, doc)
	} else {
		err = s.reportTable(r, p, doc)
	}
	if err != nil {
		return nil, err
	}
	return doc, doc.order(v.Get("sort"), v.Get("up") != "", v.Get("find"))
}

// groupings are the words for what a table may be by.
func groupings(p *place, filter string) []string {
	switch {
	case !p.file.recorded():
		return reportGroupings
	case p.asks(filter):
		return query.Groupings()
	}
	out := slices.Clone(reportGroupings)
	for _, word := range query.Groupings() {
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// order sorts the rows and leaves out those that don't have what is searched for.
func (d *tableDoc) order(by string, up bool, find string) error {
	d.All = len(d.Rows)
	if find = strings.ToLower(find); find != "" {
		rows, steps := make([]tableRow, 0, len(d.Rows)), export.NewStepper()
		for _, row := range d.Rows {
			if row.has(find, steps) {
				rows = append(rows, row)
			}
		}
		d.Rows = rows
	}
	d.Matching = len(d.Rows)
	texts := 0
	if len(d.Rows) > 0 {
		texts = len(d.Rows[0].Texts)
	}
	at := slices.IndexFunc(d.Columns, func(c column) bool { return c.Key == by })
	if by != "" && at < 0 {
		return errAsked{fmt.Errorf("there is no column %q", by)}
	}
	if by == "" {
		at = slices.IndexFunc(d.Columns, func(c column) bool { return c.Unit == "bytes" || c.Unit == "count" })
	}
	d.Sort = d.Columns[at].Key
	slices.SortStableFunc(d.Rows, func(a, b tableRow) int {
		var out int
		switch {
		case at == 0:
			out = strings.Compare(b.Key, a.Key) // figures go from high to low, and names from a to z
		case at <= texts:
			out = strings.Compare(b.Texts[at-1], a.Texts[at-1])
		default:
			out = cmp.Compare(a.exact[at-1-texts], b.exact[at-1-texts])
		}
		if !up {
			out = -out
		}
		return cmp.Or(out, strings.Compare(a.Key, b.Key))
	})
	return nil
}

func (r *tableRow) has(text string, steps *export.Stepper) bool {
	return strings.Contains(strings.ToLower(r.Key), text) ||
		slices.ContainsFunc(r.Texts, func(s string) bool { return strings.Contains(strings.ToLower(s), text) }) ||
		r.process != "" && slices.ContainsFunc(steps.Steps(r.process, r.frames), func(s export.Step) bool {
			return strings.Contains(strings.ToLower(s.Label+"\x00"+s.Module), text)
		})
}

// reportGroupings are those of a Report, and its processes.
var reportGroupings = append(report.Groupings(), "process")
