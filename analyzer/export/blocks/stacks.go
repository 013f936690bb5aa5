package blocks

import (
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/report"
)

// A frame is a function in a stack as the formats show it.
type frame struct {
	name    string // never empty
	file    string // "": not known
	line    uint32
	module  string // path; "": not known
	buildID string
	offset  uint64
}

// What stands for frames that there are none of.
const (
	noStack  = "[no stack]"
	cutStack = "[stack cut]"
)

// A stackTree is all stacks, as a tree from the outermost frames on. Parents come before their children.
type stackTree struct {
	frames []frame
	nodes  []node
	sites  []int // by the site's number: its innermost node; -1: it is that of no block

	byFrame map[frame]int
	byNode  map[node]int
}

// A node is a frame and what called it: a stack.
type node struct {
	frame, parent int // parent: -1 for none
}

func newStackTree() *stackTree {
	return &stackTree{byFrame: make(map[frame]int), byNode: make(map[node]int)}
}

// maxDepth bounds the frames of a stack: a browser's script that walks a deeper tree has no stack left itself.
const maxDepth = 2048

// skip adds a site that has no blocks.
func (t *stackTree) skip() { t.sites = append(t.sites, -1) }

// add adds the next site, with its stack, innermost frame first.
func (t *stackTree) add(frames []*report.Frame, truncated bool) {
	if len(frames) > maxDepth {
		frames, truncated = frames[:maxDepth], true
	}
	at := -1
	if truncated {
		at = t.node(frame{name: cutStack}, at)
	}
	for i := len(frames) - 1; i >= 0; i-- {
		at = t.node(frameOf(frames[i]), at)
	}
	if len(frames) == 0 {
		at = t.node(frame{name: noStack}, at)
	}
	t.sites = append(t.sites, at)
}

func frameOf(f *report.Frame) frame {
	return frame{
		name: export.Label(f), file: export.Clip(f.File), line: uint32(max(f.Line, 0)),
		module: export.Clip(f.Module), buildID: f.BuildID, offset: f.Offset,
	}
}

func (t *stackTree) node(f frame, parent int) int {
	of, ok := t.byFrame[f]
	if !ok {
		of = len(t.frames)
		t.byFrame[f] = of
		t.frames = append(t.frames, f)
	}
	n := node{of, parent}
	at, ok := t.byNode[n]
	if !ok {
		at = len(t.nodes)
		t.byNode[n] = at
		t.nodes = append(t.nodes, n)
	}
	return at
}

// done frees what is needed only while stacks are added.
func (t *stackTree) done() { t.byFrame, t.byNode = nil, nil }

// An index numbers strings in the order of their first use.
type index struct {
	of  map[string]int
	all []string
}

func newIndex() *index { return &index{of: make(map[string]int)} }

func (x *index) add(s string) (at int, isNew bool) {
	at, ok := x.of[s]
	if !ok {
		at = len(x.all)
		x.of[s] = at
		x.all = append(x.all, s)
	}
	return at, !ok
}
