package web

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/flame"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/report"
)

// least is how wide a node must be to be drawn, as a share of the picture.
const least = 1.0 / 3000

type flameDoc struct {
	Kind    export.Kind    `json:"kind"`
	Unit    string         `json:"unit"`  // bytes or count
	Thing   string         `json:"thing"` // what is counted
	Diff    bool           `json:"diff"`
	Picture *flame.Picture `json:"picture"`
	Callers *flame.Picture `json:"callers,omitempty"` // of a function; Picture then has its callees
	Command string         `json:"command"`           // what gives the same figures
	Kinds   []export.Kind  `json:"kinds"`             // that can be asked for here
	Notes   []string       `json:"notes"`
}

// flame draws a flame graph.
func (s *Server) flame(r *http.Request) (any, error) {
	v := r.URL.Query()
	p, err := s.place(v)
	if err != nil {
		return nil, err
	}
	k, err := kindOf(v)
	if err != nil {
		return nil, err
	}
	doc := &flameDoc{Kind: k, Notes: []string{}, Diff: v.Get("base") != ""}
	doc.Unit, doc.Thing = "bytes", k.Figure().Thing
	if k.Counts() {
		doc.Unit = "count"
	}
	var stacks iter.Seq[flame.Stack]
	switch {
	case doc.Diff:
		stacks, err = s.changed(r, p, k, doc)
	case p.asks(v.Get("filter")):
		stacks, err = s.asked(r, p, k, v.Get("filter"), doc)
	default:
		stacks, err = s.reported(r, p, k, doc)
	}
	if err != nil {
		return nil, err
	}
	doc.draw(stacks, v)
	return doc, nil
}

func (d *flameDoc) draw(stacks iter.Seq[flame.Stack], v url.Values) {
	opt := flame.Options{
		Inverted: v.Get("inverted") != "", Focus: v.Get("focus"), Hide: v.Get("hide"), Search: v.Get("find"), Zoom: v.Get("zoom"), Least: least,
	}
	if v.Get("fn") != "" {
		opt.Of = &flame.Function{Label: v.Get("fn"), Module: v.Get("fnm")}
		opt.Inverted = true
		d.Callers = flame.Draw(stacks, opt)
		opt.Inverted, opt.Zoom = false, ""
	}
	d.Picture = flame.Draw(stacks, opt)
}

// reported are the stacks of a Report.
func (s *Server) reported(r *http.Request, p place, k export.Kind, doc *flameDoc) (iter.Seq[flame.Stack], error) {
	have, err := s.report(r, p)
	if err != nil {
		return nil, err
	}
	for _, kind := range export.Kinds() {
		doc.Kinds = append(doc.Kinds, export.Kind(kind))
	}
	doc.Command = p.reportCommand("export", "--format folded --kind "+string(k))
	return func(yield func(flame.Stack) bool) {
		for one := range export.Stacks(have, k) {
			value := one.Bytes
			if k.Counts() {
				value = one.Count
			}
			if !yield(flame.Stack{Steps: one.Steps, Value: value, Count: one.Count}) {
				return
			}
		}
	}, nil
}

// kindsAsked are the kinds that are known of blocks that a query finds.
var kindsAsked = []export.Kind{export.Live, export.Allocated, export.Freed, export.Temporary, export.Leaked}

// figureOf is what blocks have of a kind; ok is false where that is not known.
func figureOf(f *query.Figures, k export.Kind) (value, count uint64, ok bool) {
	switch k {
	case export.Live:
		return f.LiveBytes, f.LiveCount, true
	case export.Allocated:
		return f.Bytes, f.Count, true
	case export.Freed:
		return f.Bytes - f.LiveBytes, f.Count - f.LiveCount, true
	case export.Temporary:
		return f.TemporaryCount, f.TemporaryCount, true
	case export.Leaked:
		return f.LeakedBytes, f.LeakedCount, true
	}
	return 0, 0, false
}

// asked are the stacks of the blocks that a query finds.
func (s *Server) asked(r *http.Request, p place, k export.Kind, filter string, doc *flameDoc) (iter.Seq[flame.Stack], error) {
	if _, _, ok := figureOf(&query.Figures{}, k); !ok {
		return nil, errAsked{fmt.Errorf("%s is known of a whole Report alone, not of a span or of blocks that a filter finds: choose one of %v, or an instant", k, kindsAsked)}
	}
	res, err := s.query(r, p, filter, "site")
	if err != nil {
		return nil, err
	}
	doc.Kinds, doc.Notes, doc.Command = kindsAsked, append(doc.Notes, res.Notes...), p.queryCommand(filter, "site")
	return func(yield func(flame.Stack) bool) {
		x := export.NewStepper()
		for i := range res.Groups {
			g := &res.Groups[i]
			value, count, _ := figureOf(&g.Figures, k)
			if value > 0 && !yield(flame.Stack{Steps: x.Steps(fmt.Sprintf("%s (%d)", g.Comm, g.PID), g.Stack), Value: value, Count: count}) {
				return
			}
		}
		for _, rest := range []struct {
			what string
			f    *query.Figures
		}{{"[call sites that are not listed]", res.Rest}, {"[blocks whose call sites found no room]", res.NoRoom}} {
			if rest.f == nil {
				continue
			}
			value, count, _ := figureOf(rest.f, k)
			if value > 0 && !yield(flame.Stack{Steps: []export.Step{{Label: rest.what}}, Value: value, Count: count}) {
				return
			}
		}
	}, nil
}

// commsOf are the names of processes by PID; of several of one PID, the last one's.
func commsOf(r *report.Report) map[uint32]string {
	out := make(map[uint32]string, len(r.Processes))
	for i := range r.Processes {
		out[uint32(r.Processes[i].PID)] = r.Processes[i].Comm
	}
	return out
}

// changed are the stacks of two Reports. base names the file of the first one, base_at its time.
func (s *Server) changed(r *http.Request, p place, k export.Kind, doc *flameDoc) (iter.Seq[flame.Stack], error) {
	v := r.URL.Query()
	if v.Get("filter") != "" {
		return nil, errAsked{errors.New("two times are compared by their Reports, which have no single blocks: leave the filter out, or compare less")}
	}
	base := url.Values{"file": {v.Get("base")}}
	if v.Get("base_at") != "" {
		base.Set("at", v.Get("base_at"))
	}
	first, err := s.place(base)
	if err != nil {
		return nil, err
	}
	before, err := s.report(r, first)
	if err != nil {
		return nil, err
	}
	after, err := s.report(r, p)
	if err != nil {
		return nil, err
	}
	for _, kind := range export.Kinds() {
		doc.Kinds = append(doc.Kinds, export.Kind(kind))
	}
	doc.Command = "memtrace diff " + first.argument() + " " + p.argument() + " --kind " + string(k)
	var out []flame.Stack
	for _, c := range export.Changes(before, after, k) {
		one := flame.Stack{Steps: c.Steps}
		if c.After > c.Before {
			one.Grown = c.After - c.Before
		} else {
			one.Shrunk = c.Before - c.After
		}
		one.Value = min(one.Grown, math.MaxUint64-one.Shrunk) + one.Shrunk
		out = append(out, one)
	}
	return slices.Values(out), nil
}
