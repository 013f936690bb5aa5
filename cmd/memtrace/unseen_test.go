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
