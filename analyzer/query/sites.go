package query

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
)

// siteNames looks sites up, each once.
type siteNames struct {
	from  *analyzer.Analyzer
	known []*site
	memos int

	prints map[printed]uint32 // numbers of frames that print apart
}

// printed is what a reader can tell frames apart by.
type printed struct {
	function, file, module string
	line                   int
	offset                 uint64 // of a frame without a name
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
	s := &site{number: number, name: name, comm: name.Info.Comm, function: name.Function, memo: make([]memo, n.memos)}
	if at := name.FunctionFrame; at < len(name.Frames) {
		f := name.Frames[at]
		s.function, s.file, s.module, s.line = s.group("function"), f.File, f.Module, f.Line
	}
	for _, a := range name.Info.Allocators {
		family, _, _ := strings.Cut(a, " ")
		s.allocators = append(s.allocators, family)
	}
	return s
}

// stack are the functions of its call stack, innermost first.
func (s *site) stack() []string {
	out := make([]string, 0, len(s.name.Frames))
	for _, f := range s.name.Frames {
		out = append(out, frameName(f))
	}
	return out
}

// modules are the files of its call stack, those in a row once.
func (s *site) modules() (out []string) {
	for _, f := range s.name.Frames {
		if f.Module != "" && (len(out) == 0 || out[len(out)-1] != f.Module) {
			out = append(out, f.Module)
		}
	}
	return out
}

// keyOf is one for sites that print alike, as they are one row of a Report.
func (n *siteNames) keyOf(s *site) string {
	if len(s.name.Frames) == 0 {
		return "#" + strconv.Itoa(int(s.number))
	}
	key := fmt.Appendf(nil, "%d %v %v %s\x00", s.name.Process, s.name.Truncated, s.name.FramePointers, s.name.Function)
	for _, f := range s.name.Frames {
		key = binary.AppendUvarint(key, uint64(n.number(f)))
	}
	return string(key)
}

func (n *siteNames) number(f *report.Frame) uint32 {
	if n.prints == nil {
		n.prints = make(map[printed]uint32)
	}
	p := printed{function: f.Function, file: f.File, module: f.Module, line: f.Line}
	if f.Nameless() {
		p.function, p.offset = "", f.Offset
	}
	number, ok := n.prints[p]
	if !ok {
		number = uint32(len(n.prints)) + 1
		n.prints[p] = number
	}
	return number
}

// frameName is what a frame is called in a Report: its function, or where it is.
func frameName(f *report.Frame) string {
	if f.Nameless() && f.Module != "" {
		one := report.Site{Stack: []*report.Frame{f}}
		return one.GroupKey("function")
	}
	return f.Function
}
