package export

import (
	"cmp"
	"slices"
)

// node is a frame in a tree of stacks. Its figure is that of all stacks through it.
type node struct {
	step
	source      string
	sum         weight
	own         weight // of stacks that end here
	grown       uint64 // of differences, both signs by themselves
	shrunk      uint64
	children    []*node
	byStep      map[step]*node
	depth       int
	start, size float64 // place in the picture, as shares of its width
}

func (n *node) child(s step) *node {
	if c := n.byStep[s]; c != nil {
		return c
	}
	c := &node{step: s, depth: n.depth + 1}
	if n.byStep == nil {
		n.byStep = make(map[step]*node)
	}
	n.byStep[s] = c
	n.children = append(n.children, c)
	return c
}

// treeOf makes one tree of all stacks that have something of a kind.
func treeOf(stacks []stack, k Kind, inverted bool) *node {
	root := &node{step: step{label: "all"}}
	for i := range stacks {
		w := stacks[i].weights[k.index()]
		if w.figure(k) == 0 {
			continue
		}
		path := stacks[i].path(true)
		first := len(path) - len(stacks[i].frames) // of path, that is a frame
		if inverted {
			slices.Reverse(path)
		}
		at := root
		root.sum = root.sum.plus(w)
		for j, s := range path {
			at = at.child(s)
			at.sum = at.sum.plus(w)
			if at.source != "" {
				continue
			}
			frame := len(path) - 1 - j
			if inverted {
				frame = j
			}
			if frame < len(path)-first {
				at.source = source(stacks[i].frames[frame])
			}
		}
		at.own = at.own.plus(w)
	}
	return root
}

// diffTree makes a tree of what changed.
func diffTree(changes []change, inverted bool) *node {
	root := &node{step: step{label: "all"}}
	for i := range changes {
		c := &changes[i]
		path := slices.Clone(c.path)
		if inverted {
			slices.Reverse(path)
		}
		at := root
		at.change(c)
		for _, s := range path {
			at = at.child(s)
			at.change(c)
		}
	}
	return root
}

func (n *node) change(c *change) {
	n.grown, n.shrunk = add(n.grown, c.grown()), add(n.shrunk, c.shrunk())
	n.sum = weight{bytes: add(n.grown, n.shrunk), count: add(n.grown, n.shrunk)}
}

// place lays out the tree: children beside each other by name, each as wide as
// its share, and returns the nodes that are at least least wide, outermost first.
func (n *node) place(k Kind, least float64) []*node {
	n.size = 1
	whole := float64(n.sum.figure(k))
	if whole == 0 {
		return []*node{n}
	}
	out := []*node{n}
	for i := 0; i < len(out); i++ {
		parent := out[i]
		slices.SortFunc(parent.children, func(a, b *node) int {
			return cmp.Or(cmp.Compare(a.label, b.label), cmp.Compare(a.module, b.module))
		})
		at := parent.start
		for _, c := range parent.children {
			c.start, c.size = at, float64(c.sum.figure(k))/whole
			at += c.size
			if c.size >= least {
				out = append(out, c)
			}
		}
	}
	return out
}
