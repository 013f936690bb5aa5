package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// errPending says that an answer is still being made.
type errPending float64

func (e errPending) Error() string { return fmt.Sprintf("%.0f %% done", 100*float64(e)) }

// errAsked is a question that can't be answered as it is.
type errAsked struct{ error }

// answerer answers a question of the page with a document.
type answerer func(r *http.Request) (any, error)

// ServeHTTP writes the document as JSON: 202 and how far it is while it is made.
func (a answerer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	doc, err := a(r)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, doc)
}

func writeJSON(w http.ResponseWriter, code int, doc any) {
	text, err := render.EncodeJSON(doc, "", true)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

func writeError(w http.ResponseWriter, err error) {
	var pending errPending
	var problem *query.Problem
	var asked errAsked
	switch {
	case errors.As(err, &pending):
		writeJSON(w, http.StatusAccepted, map[string]float64{"done": float64(pending)})
	case errors.As(err, &problem):
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": problem.Text, "from": problem.From, "to": problem.To})
	case errors.As(err, &asked):
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
	case errors.Is(err, errBusy):
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
	default:
		writeJSON(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
	}
}

// A place is what of which file is asked: its end, an instant, or a span. Times are ns since the start.
type place struct {
	file     *File
	number   int // of the file
	at       uint64
	whole    bool // the end
	span     bool
	from, to uint64
}

func (s *Server) place(v url.Values) (p place, err error) {
	if p.number, err = strconv.Atoi(v.Get("file")); err != nil || p.number < 0 || p.number >= len(s.files) {
		return p, errAsked{fmt.Errorf("there is no file %q", v.Get("file"))}
	}
	p.file = s.files[p.number]
	times := [3]uint64{}
	for i, name := range []string{"at", "from", "to"} {
		if v.Get(name) == "" {
			continue
		}
		if times[i], err = strconv.ParseUint(v.Get(name), 10, 64); err != nil || times[i] > p.file.end {
			return p, errAsked{fmt.Errorf("%s has no time %s: it lasts %v", p.file.name, v.Get(name), time.Duration(p.file.end))}
		}
		if !p.file.recorded() {
			return p, errAsked{errNoRecording}
		}
	}
	p.at, p.from, p.to = times[0], times[1], times[2]
	p.span = v.Get("from") != "" || v.Get("to") != ""
	if p.span && v.Get("to") == "" {
		p.to = p.file.end
	}
	if p.span && p.from >= p.to {
		return p, errAsked{errors.New("the span ends before it begins")}
	}
	p.whole = !p.span && v.Get("at") == ""
	if p.whole {
		p.at = p.file.end
	}
	if p.span {
		p.at = p.to
	}
	return p, nil
}

// report is the Report of where the place ends.
func (s *Server) report(r *http.Request, p place) (*report.Report, error) {
	if (p.whole || p.at == p.file.end) && p.file.last != nil {
		return p.file.last, nil
	}
	at := p.at
	if p.whole {
		at = p.file.end
	}
	value, done, err := s.jobs.get(r.Context(), fmt.Sprintf("report %d %d", p.number, at), weighReport, func(watch func(float64) error) (any, error) {
		return p.file.report(at, watch)
	})
	if err != nil {
		return nil, err
	}
	if done < 1 {
		return nil, errPending(done)
	}
	return value.(*report.Report), nil
}

// weighReport is about what a Report takes, in bytes. Frames are shared.
func weighReport(v any) uint64 {
	r := v.(*report.Report)
	sum := uint64(len(r.Processes)+len(r.Leaks)) << 10
	for i := range r.Sites {
		sum += 512 + 16*uint64(len(r.Sites[i].Stack)+len(r.Sites[i].SizeHistogram))
	}
	return sum
}

// asks reports whether a question is for the recording's blocks, rather than for a Report.
func (p *place) asks(filter string) bool { return p.span || filter != "" }

// expression is a filter, and over a span, that blocks were allocated in it.
func (p *place) expression(filter string) string {
	if !p.span || p.from == 0 {
		return filter
	}
	born := "born >= " + time.Duration(p.from).String()
	if filter == "" {
		return born
	}
	return "(" + filter + ") && " + born
}

// options are those of a query about the place.
func (p *place) options() query.Options {
	switch {
	case p.span:
		return query.Options{From: max(p.from, 1), To: p.to}
	case p.whole:
		return query.Options{}
	}
	return query.Options{From: max(p.at, 1), To: max(p.at, 1)}
}

// query asks the recording.
func (s *Server) query(r *http.Request, p place, filter, by string) (*query.Result, error) {
	if !p.file.recorded() {
		return nil, errAsked{errNoRecording}
	}
	if _, err := query.Compile(filter); err != nil {
		return nil, err // with its place in the filter alone
	}
	q, err := query.Compile(p.expression(filter))
	if err != nil {
		return nil, err
	}
	opt := p.options()
	if opt.By = by; by == query.None {
		opt.Limit = maxRows
	}
	if err := opt.Check(); err != nil {
		return nil, errAsked{err}
	}
	key := fmt.Sprintf("query %d %d %d %s %s", p.number, opt.From, opt.To, by, q)
	value, done, err := s.jobs.get(r.Context(), key, weighResult, func(watch func(float64) error) (any, error) {
		return p.file.query(q, opt, watch)
	})
	if err != nil {
		return nil, err
	}
	if done < 1 {
		return nil, errPending(done)
	}
	return value.(*query.Result), nil
}

func weighResult(v any) uint64 {
	r := v.(*query.Result)
	return uint64(len(r.Groups)+len(r.Blocks)+1) << 9
}

// kindOf is the kind of bytes that is asked for.
func kindOf(v url.Values) (export.Kind, error) {
	k := v.Get("kind")
	if k == "" {
		return export.Live, nil
	}
	for _, have := range export.Kinds() {
		if have == k {
			return export.Kind(k), nil
		}
	}
	return "", errAsked{fmt.Errorf("kind %q is none of %v", k, export.Kinds())}
}
