package query

import (
	"strings"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
)

// siteNames looks sites up, each once.
type siteNames struct {
	from  *analyzer.Analyzer
	known []*site
	memos int
}

func (n *siteNames) of(number uint32) *site {
	if int(number) < len(n.known) && n.known[number] != nil {
		return n.known[number]
	}
	for int(number) >= len(n.known) {
		n.known = append(n.known, nil)
	}
	s := n.look(number)
	n.known[number] = s
	return s
}

func (n *siteNames) look(number uint32) *site {
	name, _ := n.from.Site(number)
	s := &site{name: name, comm: name.Info.Comm, function: name.Function, memo: make([]memo, n.memos)}
	if at := name.FunctionFrame; at < len(name.Frames) {
		f := name.Frames[at]
		s.function, s.file, s.module, s.line = s.group("function"), f.File, f.Module, f.Line
	}
	for _, f := range name.Frames {
		s.stack = append(s.stack, frameName(f))
		if f.Module != "" && (len(s.modules) == 0 || s.modules[len(s.modules)-1] != f.Module) {
			s.modules = append(s.modules, f.Module)
		}
	}
	for _, a := range name.Info.Allocators {
		family, _, _ := strings.Cut(a, " ")
		s.allocators = append(s.allocators, family)
	}
	return s
}

// frameName is what a frame is called in a Report: its function, or where it is.
func frameName(f *report.Frame) string {
	if f.Nameless() && f.Module != "" {
		one := report.Site{Stack: []*report.Frame{f}}
		return one.GroupKey("function")
	}
	return f.Function
}
