//go:build linux && !viewer

package main

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/probe"
)

// TestUnseenFunctionsOfEachFile: files of one path, as those of containers are, are told of each; a file once, whatever
// it is called.
func TestUnseenFunctionsOfEachFile(t *testing.T) {
	s := &session{unseen: make(map[fileID]bool), out: noOutput{}}
	object := func(path string, inode uint64, name string) probe.Object {
		left := []probe.Skip{{Name: name, Reason: "it jumps on through a pointer"}}
		return probe.Object{Path: path, Major: 8, Minor: 1, Inode: inode, Unseen: left}
	}
	s.warnOfUnseen(&target{pid: 1, objects: []probe.Object{object("/lib/alloc.so", 5, "first"), {Inode: 9}}})
	s.warnOfUnseen(&target{pid: 2, objects: []probe.Object{object("/lib/alloc.so", 6, "second")}})
	s.warnOfUnseen(&target{pid: 3, objects: []probe.Object{object("/lib/other.so", 5, "first")}})
	if len(s.warnings) != 2 || !strings.Contains(s.warnings[0], "process 1: first") ||
		!strings.Contains(s.warnings[1], "process 2: second") {
		t.Errorf("warnings %q", s.warnings)
	}
}

// TestWarningsBeyondTheLimitAreCounted: a process that causes more warnings than are kept hides no other's.
func TestWarningsBeyondTheLimitAreCounted(t *testing.T) {
	var said tellsWarnings
	s := &session{out: &said}
	for range 2 {
		for i := range maxWarnings + 3 {
			s.warn("process %d is odd", i)
			s.warn("process %d is odd", 0)
		}
	}
	if len(s.warnings) != maxWarnings {
		t.Errorf("%d warnings are kept, want %d", len(s.warnings), maxWarnings)
	}
	if last := said.texts[len(said.texts)-1]; len(said.texts) != maxWarnings+1 || !strings.Contains(last, "further ones are counted") {
		t.Errorf("%d warnings were said, the last one %q", len(said.texts), last)
	}
	if texts := s.unsaid.texts(); len(texts) != 1 || texts[0] != "3 warnings were not shown, beyond the first 100" {
		t.Errorf("of the others the Report says %q", texts)
	}
	for i := range 2 * maxUnsaid {
		s.warn("process %d is odd", i)
	}
	const many = "more than 10,000 warnings were not shown, beyond the first 100"
	if texts := s.unsaid.texts(); texts[0] != many || len(s.unsaid.known) != maxUnsaid {
		t.Errorf("of very many others the Report says %q, and %d are remembered", texts, len(s.unsaid.known))
	}
}

// tellsWarnings keeps what is said.
type tellsWarnings struct {
	noOutput
	texts []string
}

func (w *tellsWarnings) warning(text string) { w.texts = append(w.texts, text) }
