package flame

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/export"
)

// stack is of functions, outermost first.
func stack(value uint64, names string) Stack {
	s := Stack{Value: value, Count: 1}
	for _, name := range strings.Fields(names) {
		s.Steps = append(s.Steps, export.Step{Label: name, Module: "/bin/p"})
	}
	return s
}

// drawn is a picture as text.
func drawn(p *Picture) string {
	var out []string
	for _, n := range p.Nodes {
		hit := ""
		if n.Hit {
			hit = "!"
		}
		out = append(out, fmt.Sprintf("%d%s%s=%d", n.Depth, n.Label, hit, n.Value))
	}
	return strings.Join(out, " ")
}

var some = []Stack{stack(10, "p main read"), stack(30, "p main parse read"), stack(2, "p main parse read parse"), stack(5, "p idle")}

func TestDraw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opt  Options
		want string
	}{
		{"all", Options{}, "0all=47 1p=47 2idle=5 2main=42 3parse=32 4read=32 5parse=2 3read=10"},
		{"inverted", Options{Inverted: true, Focus: "main"}, "0all=42 1parse=2 2read=2 3parse=2 4main=2 5p=2 1read=40 2main=10 3p=10 2parse=30 3main=30 4p=30"},
		{"hidden", Options{Hide: "PARSE"}, "0all=15 1p=15 2idle=5 2main=10 3read=10"},
		{"narrow", Options{Least: 0.2}, "0all=47 1p=47 2main=42 3parse=32 4read=32 5[1 smaller]=2 3read=10 2[1 smaller]=5"},
		{"found", Options{Search: "parse"}, "0all=47 1p=47 2idle=5 2main=42 3parse!=32 4read=32 5parse!=2 3read=10"},
		{"callees", Options{Of: &Function{"parse", "/bin/p"}}, "0all=32 1parse=32 2read=32 3parse=2"},
		{"callers", Options{Of: &Function{"parse", "/bin/p"}, Inverted: true}, "0all=32 1parse=32 2main=32 3p=32"},
		{"of nothing", Options{Of: &Function{"parse", "/bin/other"}}, "0all=0"},
	} {
		if got := drawn(Draw(slices.Values(some), c.opt)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	if found := Draw(slices.Values(some), Options{Search: "parse", Least: 0.9}).Found; found != (Found{Frames: 2, Value: 32}) {
		t.Errorf("found %+v", found)
	}
}

// TestZoom shows the nodes above the one that is zoomed to, and more of what is below.
func TestZoom(t *testing.T) {
	t.Parallel()
	idle := ""
	for _, n := range Draw(slices.Values(some), Options{}).Nodes {
		if n.Label == "idle" {
			idle = n.ID
		}
	}
	p := Draw(slices.Values(some), Options{Zoom: idle, Least: 0.5})
	if got, want := drawn(p), "0all=47 1p=47 2idle=5"; got != want || p.Zoomed != idle {
		t.Errorf("%s, zoomed to %q; want %s, %q", got, p.Zoomed, want, idle)
	}
	if p := Draw(slices.Values(some), Options{Zoom: "none"}); p.Zoomed != "" || len(p.Nodes) != 8 {
		t.Errorf("zoomed to %q, %s", p.Zoomed, drawn(p))
	}
}

// TestHuge keeps sums of a hostile file at the largest number, and what is drawn within bounds.
func TestHuge(t *testing.T) {
	t.Parallel()
	stacks := []Stack{stack(1<<63, "p a"), stack(1<<63, "p b")}
	if p := Draw(slices.Values(stacks), Options{}); p.Value != 1<<64-1 {
		t.Errorf("%d", p.Value)
	}
	stacks = nil
	for i := range MaxNodes + 100 {
		stacks = append(stacks, stack(1, fmt.Sprint("p f", i)))
	}
	p := Draw(slices.Values(stacks), Options{})
	if last := p.Nodes[len(p.Nodes)-1]; len(p.Nodes) > MaxNodes+1 || last.ID != "" || int(last.Value) != p.Smaller || p.Value != MaxNodes+100 {
		t.Errorf("%d nodes, %+v, %d smaller", len(p.Nodes), last, p.Smaller)
	}
}
