package render

import (
	"bufio"
	"bytes"
	"io"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/report"
)

// ComparisonSchema names the JSON of a diff of Reports. Sizes are bytes.
const ComparisonSchema = "memtrace.report-diff/1"

type comparisonDocument struct {
	Schema    string          `json:"schema"`
	Kind      string          `json:"kind"`
	By        string          `json:"by"`
	Before    comparedSide    `json:"before"`
	After     comparedSide    `json:"after"`
	Estimated bool            `json:"estimated"`
	Unsure    bool            `json:"unsure"` // a row is
	Total     comparedSum     `json:"total"`
	Sites     comparedTally   `json:"sites"`
	Rows      []comparedRow   `json:"rows"`
	Omitted   comparedLeftOut `json:"omitted"` // rows that --top leaves out
	Warnings  []string        `json:"warnings"`
}

type comparedSide struct {
	File      string           `json:"file"`
	WindowNS  uint64           `json:"window_ns"`
	Processes []string         `json:"processes"` // the names, each once
	Lost      uint64           `json:"lost"`
	Omitted   int              `json:"sites_omitted"`
	Sampling  *report.Sampling `json:"sampling,omitempty"`
}

type comparedDelta struct {
	Before   uint64 `json:"before"`
	After    uint64 `json:"after"`
	Change   int64  `json:"change"`
	Grown    uint64 `json:"grown"`
	Shrunk   uint64 `json:"shrunk"`
	BeforeSE uint64 `json:"before_se,omitempty"`
	AfterSE  uint64 `json:"after_se,omitempty"`
	ChangeSE uint64 `json:"change_se,omitempty"`
}

// comparedSum has what is known of a kind: bytes, a count, or both.
type comparedSum struct {
	Bytes *comparedDelta `json:"bytes,omitempty"`
	Count *comparedDelta `json:"count,omitempty"`
}

type comparedTally struct {
	Before         int `json:"before"`
	After          int `json:"after"`
	New            int `json:"new"`
	Gone           int `json:"gone"`
	Grown          int `json:"grown"`
	Shrunk         int `json:"shrunk"`
	Unchanged      int `json:"unchanged"`
	UnlistedBefore int `json:"unlisted_before"`
	UnlistedAfter  int `json:"unlisted_after"`
}

type comparedRow struct {
	Key      string        `json:"key"` // by site: the fingerprint
	State    compare.State `json:"state"`
	Unsure   bool          `json:"unsure,omitempty"` // grown and shrunk may be too large, as a Report leaves sites out
	Function string        `json:"function,omitempty"`
	File     string        `json:"file,omitempty"`
	Line     int           `json:"line,omitempty"`
	Module   string        `json:"module,omitempty"`
	comparedSum
	Sites     comparedNumbers  `json:"sites"` // of the Reports
	Processes *comparedNumbers `json:"processes,omitempty"`
	Stack     []*report.Frame  `json:"stack,omitempty"` // innermost first
}

type comparedNumbers struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

type comparedLeftOut struct {
	Rows int `json:"rows"`
	comparedSum
}

// writeComparisonJSON encodes rows one by one: those of large Reports take many 100 MB.
func writeComparisonJSON(w io.Writer, d *compare.Diff, top int) error {
	rows, rest := d.First(d.Rows, top)
	doc := document{to: bufio.NewWriterSize(w, 1<<20)}
	text, err := doc.encode("", newComparisonDocument(d, &rest))
	if err != nil {
		return err
	}
	before, after, err := cutArray(append(bytes.Clone(text), '\n'), `"rows":`)
	if err != nil {
		return err
	}
	doc.put(before)
	err = doc.array("    ", len(rows), func(i int) error {
		row, err := doc.encode("    ", newComparedRow(d, &rows[i]))
		doc.put(row)
		return err
	})
	if err != nil {
		return err
	}
	doc.put(after)
	return doc.to.Flush()
}

func newComparisonDocument(d *compare.Diff, rest *compare.Rest) *comparisonDocument {
	return &comparisonDocument{
		Schema: ComparisonSchema, Kind: d.Figure.Kind, By: d.By, Before: newComparedSide(&d.Before), After: newComparedSide(&d.After),
		Estimated: d.Before.Report.Sampling != nil || d.After.Report.Sampling != nil, Unsure: d.Unsure, Total: newComparedSum(&d.Figure, &d.Total),
		Sites: comparedTally(d.Sites), Rows: []comparedRow{}, Omitted: comparedLeftOut{rest.Rows, newComparedSum(&d.Figure, &rest.Sum)},
		Warnings: orEmpty(d.Cautions),
	}
}

func newComparedSide(s *compare.Side) comparedSide {
	out := comparedSide{
		File: ValidText(s.Name), WindowNS: s.Report.WindowNS, Processes: []string{}, Lost: s.Report.Events.Lost, Omitted: s.Omitted,
	}
	if s.Report.Sampling != nil {
		sampling := *s.Report.Sampling
		sampling.Intervals = orEmpty(sampling.Intervals)
		out.Sampling = &sampling
	}
	seen := make(map[string]bool)
	for i := range s.Report.Processes {
		if name := ValidText(s.Report.Processes[i].Comm); !seen[name] {
			seen[name] = true
			out.Processes = append(out.Processes, name)
		}
	}
	return out
}

func newComparedRow(d *compare.Diff, r *compare.Row) comparedRow {
	out := comparedRow{
		Key: ValidText(r.Key), State: r.State, Unsure: r.Unsure, comparedSum: newComparedSum(&d.Figure, &r.Sum), Sites: comparedNumbers{r.Sites[0], r.Sites[1]},
	}
	if d.ByProcess() {
		out.Processes = &comparedNumbers{r.Processes[0], r.Processes[1]}
	}
	if r.Site == nil {
		return out
	}
	out.Function = siteName(r.Site)
	if f := siteFrame(r.Site); f != nil {
		out.File, out.Line, out.Module = ValidText(f.File), f.Line, ValidText(f.Module)
	}
	out.Stack = r.Site.Stack
	return out
}

func newComparedSum(f *compare.Figure, s *compare.Sum) (out comparedSum) {
	if f.Bytes {
		out.Bytes = newComparedDelta(&s.Bytes)
	}
	if f.Count {
		out.Count = newComparedDelta(&s.Count)
	}
	return out
}

func newComparedDelta(d *compare.Delta) *comparedDelta {
	return &comparedDelta{d.Before, d.After, d.Change(), d.Grown, d.Shrunk, d.BeforeSE, d.AfterSE, d.ChangeSE()}
}
