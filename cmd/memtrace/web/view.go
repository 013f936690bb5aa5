package web

import (
	"net/http"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/report"
)

// maxListed is how many processes a page is sent.
const maxListed = 500

// fileDoc says what a file is of.
type fileDoc struct {
	Name      string   `json:"name"`
	Recording bool     `json:"recording"`
	Host      string   `json:"host,omitempty"`
	Kernel    string   `json:"kernel,omitempty"`
	Command   []string `json:"command,omitempty"`
	Began     string   `json:"began,omitempty"` // RFC 3339
	EndNS     uint64   `json:"end_ns"`
	Bytes     int64    `json:"bytes"`
	Note      string   `json:"note,omitempty"`
}

type listDoc struct {
	Version string        `json:"version"`
	Files   []fileDoc     `json:"files"`
	Fields  []query.Field `json:"fields"`
}

// list says which files there are.
func (s *Server) list(*http.Request) (any, error) {
	doc := listDoc{Version: s.version, Files: []fileDoc{}, Fields: query.Fields()}
	for _, f := range s.files {
		one := fileDoc{Name: f.name, Recording: f.recorded(), EndNS: f.end, Bytes: f.size, Note: f.note}
		if f.recorded() {
			one.Host, one.Kernel, one.Command = f.head.Host, f.head.Kernel, f.head.Command
			one.Began = f.began().UTC().Format("2006-01-02T15:04:05Z")
		}
		doc.Files = append(doc.Files, one)
	}
	return doc, nil
}

type viewDoc struct {
	Report    report.Report  `json:"report"` // without sites, regions and leaks, and those that first touched memory
	Totals    []export.Total `json:"totals"`
	Sites     int            `json:"sites"`
	Processes int            `json:"processes"` // all; the Report has the first ones
	Leaks     []leakSum      `json:"leaks"`
}

type leakSum struct {
	Kind  string `json:"kind"`
	Sites int    `json:"sites"`
	report.LeakSum
}

// view sums up a file at one time.
func (s *Server) view(r *http.Request) (any, error) {
	p, err := s.place(r.URL.Query())
	if err != nil {
		return nil, err
	}
	have, err := s.report(r, p)
	if err != nil {
		return nil, err
	}
	doc := viewDoc{Report: *have, Totals: export.Totals(have), Sites: len(have.Sites) + have.SitesMore, Processes: len(have.Processes), Leaks: []leakSum{}}
	doc.Report.Sites, doc.Report.Regions, doc.Report.Leaks, doc.Report.Groups = []report.Site{}, []report.Region{}, []report.Leak{}, nil
	if have.Touched != nil {
		sums := *have.Touched
		sums.Sites = []report.TouchedSite{}
		doc.Report.Touched = &sums
	}
	doc.Report.Processes = have.Processes[:min(len(have.Processes), maxListed)]
	for _, kind := range report.LeakKinds() {
		sum := leakSum{Kind: kind}
		for i := range have.Leaks {
			if have.Leaks[i].Kind == kind {
				sum.Sites++
				sum.Add(&have.Leaks[i])
			}
		}
		doc.Leaks = append(doc.Leaks, sum)
	}
	return doc, nil
}
