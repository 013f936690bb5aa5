package flame

import (
	"cmp"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/export"
)

// A Stack is a call stack and its figures. In a difference, Value is Grown and Shrunk together.
type Stack struct {
	Steps         []export.Step // from the process to the innermost frame; may be lent until the next Stack
	Value, Count  uint64
	Grown, Shrunk uint64
}

// A Function is all frames of one name in one file.
type Function struct{ Label, Module string }

// Options say what to draw.
type Options struct {
	Inverted bool      // from the allocating function to its callers
	Focus    string    // only stacks with a frame whose name or file has this in it; "": all
	Hide     string    // no stacks with such a frame; "": all
	Search   string    // marks frames whose name or file has this in it
	Zoom     string    // ID of the node that is as wide as the picture; "" or one that is not there: the root
	Of       *Function // only what this function's outermost frame holds: its callees, or if Inverted its callers
	Least    float64   // leave out nodes narrower than this share of the picture
}

// node is a frame in the tree.
type node struct {
	step          export.Step
	inlined       bool // all of its frames are
	id            uint64
	depth         int
	value, count  uint64
	grown, shrunk uint64
	own           uint64
	children      []*node
	byStep        map[Function]*node // nil: there are few children
	parent        *node
}

// add keeps to the largest number: a hostile file must not make a sum small.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func (n *node) take(s *Stack) {
	n.value, n.count = add(n.value, s.Value), add(n.count, s.Count)
	n.grown, n.shrunk = add(n.grown, s.Grown), add(n.shrunk, s.Shrunk)
}

// few is how many children are looked through one after the other: most nodes have one.
const few = 8

func (n *node) child(s *export.Step) *node {
	key := Function{s.Label, s.Module}
	if c := n.childOf(key); c != nil {
		c.inlined = c.inlined && s.Inlined
		if c.step.Source == "" {
			c.step.Source = s.Source
		}
		return c
	}
	c := &node{step: *s, inlined: s.Inlined, id: idOf(n.id, key), depth: n.depth + 1, parent: n}
	n.children = append(n.children, c)
	switch {
	case n.byStep != nil:
		n.byStep[key] = c
	case len(n.children) > few:
		n.byStep = make(map[Function]*node, 2*few)
		for _, c := range n.children {
			n.byStep[Function{c.step.Label, c.step.Module}] = c
		}
	}
	return c
}

func (n *node) childOf(key Function) *node {
	if n.byStep != nil {
		return n.byStep[key]
	}
	for _, c := range n.children {
		if c.step.Label == key.Label && c.step.Module == key.Module {
			return c
		}
	}
	return nil
}

// idOf names a node by its path, so that a link to it holds for another Report, too.
func idOf(parent uint64, f Function) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendUint(nil, parent, 16))
	_, _ = h.Write([]byte("\x00" + f.Label + "\x00" + f.Module))
	return h.Sum64()
}

// matches reports whether a frame's name or file has a text in it, which is in lower case.
func matches(s *export.Step, text string) bool {
	return text != "" && (strings.Contains(strings.ToLower(s.Label), text) || strings.Contains(strings.ToLower(s.Module), text))
}

func through(steps []export.Step, text string) bool {
	return slices.ContainsFunc(steps, func(s export.Step) bool { return matches(&s, text) })
}

// treeOf makes a tree of the stacks that o wants.
func treeOf(stacks iter.Seq[Stack], o *Options) *node {
	focus, hide := strings.ToLower(o.Focus), strings.ToLower(o.Hide)
	root := &node{step: export.Step{Label: "all"}}
	for one := range stacks {
		s := &one
		if s.Value == 0 || focus != "" && !through(s.Steps, focus) || hide != "" && through(s.Steps, hide) {
			continue
		}
		steps := o.path(s.Steps)
		if len(steps) == 0 {
			continue
		}
		at := root
		at.take(s)
		for j := range steps {
			at = at.child(&steps[j])
			at.take(s)
		}
		at.own = add(at.own, s.Value)
	}
	root.sort()
	return root
}

// path is the part of a stack that is drawn, in the order in which it is; empty for a stack without the function.
func (o *Options) path(steps []export.Step) []export.Step {
	first := 0
	if o.Of != nil {
		first = slices.IndexFunc(steps, func(s export.Step) bool { return s.Label == o.Of.Label && s.Module == o.Of.Module })
		if first < 0 {
			return nil
		}
	}
	switch {
	case o.Of != nil && o.Inverted:
		steps = steps[:first+1]
	case o.Of != nil:
		return steps[first:]
	}
	if o.Inverted {
		steps = slices.Clone(steps)
		slices.Reverse(steps)
	}
	return steps
}

// sort has the children of each node by name, so that pictures of two times look alike.
func (n *node) sort() {
	slices.SortFunc(n.children, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.step.Label, b.step.Label), cmp.Compare(a.step.Module, b.step.Module))
	})
	n.byStep = nil
	for _, c := range n.children {
		c.sort()
	}
}
