package flame

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// MaxNodes is how many nodes a Picture has at most.
const MaxNodes = 20_000

// A Picture is what a page draws: nodes in the order of a walk from the root, each before its children. The nodes
// above the one that is zoomed to come first.
type Picture struct {
	Value   uint64 `json:"value"` // of the root
	Count   uint64 `json:"count"`
	Grown   uint64 `json:"grown"`
	Shrunk  uint64 `json:"shrunk"`
	Zoomed  string `json:"zoomed"` // ID of the node that is as wide as the picture; "" is the root
	Nodes   []Node `json:"nodes"`
	Found   Found  `json:"found"`
	Smaller int    `json:"smaller"` // nodes that are too narrow to be drawn: those with label "" stand for them
}

// A Node is a frame. Those without an ID stand for the children of the node above them that are too narrow.
type Node struct {
	ID      string `json:"id"`
	Depth   int    `json:"d"` // of the root, 0
	Label   string `json:"n"`
	Module  string `json:"m,omitempty"`
	Source  string `json:"s,omitempty"`
	Inlined bool   `json:"i,omitempty"`
	Hit     bool   `json:"h,omitempty"` // what is searched for
	Value   uint64 `json:"v"`
	Own     uint64 `json:"o"`
	Count   uint64 `json:"c"`
	Grown   uint64 `json:"g,omitempty"`
	Shrunk  uint64 `json:"k,omitempty"`
}

// Found is what a search has found in the whole tree, also in what is not drawn.
type Found struct {
	Frames int    `json:"frames"`
	Value  uint64 `json:"value"` // frames within others count once
}

// Draw makes a picture of stacks.
func Draw(stacks iter.Seq[Stack], o Options) *Picture {
	root := treeOf(stacks, &o)
	p := &Picture{Value: root.value, Count: root.count, Grown: root.grown, Shrunk: root.shrunk, Nodes: []Node{}}
	search := strings.ToLower(o.Search)
	if search != "" {
		p.find(root, search, false)
	}
	top := root.find(o.Zoom)
	if top != root {
		p.Zoomed = top.name()
	}
	for _, n := range top.above() {
		p.put(n, search)
	}
	p.show(top, search, uint64(o.Least*float64(top.value)))
	return p
}

func (n *node) name() string {
	if n.parent == nil {
		return "0"
	}
	return strconv.FormatUint(n.id, 16)
}

// find is the node with an ID, or n.
func (n *node) find(id string) *node {
	if id == "" {
		return n
	}
	for todo := []*node{n}; len(todo) > 0; {
		at := todo[len(todo)-1]
		if todo = append(todo[:len(todo)-1], at.children...); at.name() == id {
			return at
		}
	}
	return n
}

// above are the nodes from the root down to n's parent.
func (n *node) above() []*node {
	if n.parent == nil {
		return nil
	}
	return append(n.parent.above(), n.parent)
}

func (p *Picture) put(n *node, search string) {
	p.Nodes = append(p.Nodes, Node{
		ID: n.name(), Depth: n.depth, Label: n.step.Label, Module: n.step.Module, Source: n.step.Source, Inlined: n.inlined,
		Hit: n.parent != nil && matches(&n.step, search), Value: n.value, Own: n.own, Count: n.count, Grown: n.grown, Shrunk: n.shrunk,
	})
}

// show draws a node and what is below it. What is too narrow, or one too many, becomes one node.
func (p *Picture) show(n *node, search string, least uint64) {
	p.put(n, search)
	var rest Node
	left := 0
	for _, c := range n.children {
		if c.value < least || len(p.Nodes) >= MaxNodes {
			left++
			p.Smaller++
			rest.Value, rest.Count = add(rest.Value, c.value), add(rest.Count, c.count)
			rest.Grown, rest.Shrunk = add(rest.Grown, c.grown), add(rest.Shrunk, c.shrunk)
			continue
		}
		p.show(c, search, least)
	}
	if left > 0 {
		rest.Depth, rest.Label = n.depth+1, fmt.Sprintf("[%d smaller]", left)
		p.Nodes = append(p.Nodes, rest)
	}
}

func (p *Picture) find(n *node, search string, within bool) {
	if n.parent != nil && matches(&n.step, search) {
		p.Found.Frames++
		if !within {
			p.Found.Value, within = add(p.Found.Value, n.value), true
		}
	}
	for _, c := range n.children {
		p.find(c, search, within)
	}
}
