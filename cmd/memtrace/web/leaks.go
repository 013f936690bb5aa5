package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/suppress"
)

// maxLeaks is how many leaks a page is sent.
const maxLeaks = 300

type leaksDoc struct {
	Leaks   []leakDoc `json:"leaks"`
	All     int       `json:"all"`
	Checked bool      `json:"checked"` // a process was read for leaks
	Command string    `json:"command"`
}

type leakDoc struct {
	Number int `json:"number"` // its index in the Report
	report.Leak
	Function string        `json:"function"`
	Process  string        `json:"comm"`
	Stack    []export.Step `json:"stack"`
	More     int           `json:"more,omitempty"`
}

// leaks lists verdicts and candidates, the worst kind first, and of each kind the largest.
func (s *Server) leaks(r *http.Request) (any, error) {
	p, err := s.place(r.URL.Query())
	if err != nil {
		return nil, err
	}
	have, err := s.report(r, p)
	if err != nil {
		return nil, err
	}
	doc := leaksDoc{Leaks: []leakDoc{}, Command: p.reportCommand("report", "--format json")}
	for i := range have.Processes {
		doc.Checked = doc.Checked || have.Processes[i].LeakCheck != nil
	}
	find := strings.ToLower(r.URL.Query().Get("find"))
	sites, comms, steps := have.SiteIndex(), commsOf(have), export.NewStepper()
	for i := range have.Leaks {
		one := leakOf(i, have, sites[have.Leaks[i].Site], comms, steps)
		if find == "" || one.has(find) {
			doc.Leaks = append(doc.Leaks, one)
		}
	}
	doc.All = len(doc.Leaks)
	slices.SortStableFunc(doc.Leaks, func(a, b leakDoc) int {
		return cmp.Or(slices.Index(report.LeakKinds(), a.Kind)-slices.Index(report.LeakKinds(), b.Kind), cmp.Compare(b.Bytes, a.Bytes))
	})
	doc.Leaks = doc.Leaks[:min(len(doc.Leaks), maxLeaks)]
	return doc, nil
}

func leakOf(i int, r *report.Report, site *report.Site, comms map[uint32]string, steps *export.Stepper) leakDoc {
	l := &r.Leaks[i]
	one := leakDoc{Number: i, Leak: *l, Process: comms[uint32(l.PID)], Stack: []export.Step{}}
	if site == nil {
		return one
	}
	one.Function = export.Clip(site.Function)
	one.Stack = slices.Clone(steps.Steps(fmt.Sprintf("%s (%d)", one.Process, l.PID), site.Stack))
	if len(one.Stack) > maxStack {
		one.More, one.Stack = len(one.Stack)-maxStack, one.Stack[len(one.Stack)-maxStack:]
	}
	return one
}

func (l *leakDoc) has(text string) bool {
	return strings.Contains(l.Kind, text) || slices.ContainsFunc(l.Stack, func(s export.Step) bool {
		return strings.Contains(strings.ToLower(s.Label+"\x00"+s.Module), text)
	})
}

// suppression is the text that keeps a leak out of later Reports.
func (s *Server) suppression(r *http.Request) (any, error) {
	v := r.URL.Query()
	p, err := s.place(v)
	if err != nil {
		return nil, err
	}
	have, err := s.report(r, p)
	if err != nil {
		return nil, err
	}
	i, err := number(v, "leak", 1<<31)
	if err != nil || int(i) >= len(have.Leaks) {
		return nil, errAsked{fmt.Errorf("there is no leak %s", v.Get("leak"))}
	}
	var text strings.Builder
	if _, err := suppress.Write(&text, have, []int{int(i)}, suppress.Valgrind); err != nil {
		return nil, err
	}
	return map[string]string{"text": text.String()}, nil
}
