package export

import (
	"bytes"
	_ "embed" // the picture's style and script
	"encoding/xml"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/report"
)

var (
	//go:embed page/flame.css
	svgCSS string
	//go:embed page/flame.js
	svgJS string
)

// The picture's measures, in pixels.
const (
	svgWidth   = 1200
	svgMargin  = 10
	svgInner   = svgWidth - 2*svgMargin
	svgRow     = 18
	svgTop     = 74 // title, subtitle, legend
	svgBottom  = 46 // what the pointer is on, and keys
	svgChar    = 6.7
	svgLeast   = 0.1 // narrower frames are left out
	maxModules = 8   // with a colour and a name in the legend
)

// picture is a flame graph to be written, in both directions.
type picture struct {
	title, subtitle string
	kind            Kind
	trees           [2]*node // from the process inward; inverted
	inverted        bool     // which is shown first
	diff            bool
	colors          map[string]int // of modules
	legend          []string
	out             bytes.Buffer
}

// writeFlamegraph writes an SVG that needs nothing else.
func writeFlamegraph(w io.Writer, r *report.Report, opt Options) error {
	k, stacks := opt.kind(), stacksOf(r)
	p := &picture{
		title: processesOf(r) + ": " + kinds[k.index()].title + ", " + describe(total(stacks, k), k), subtitle: subtitle(r, opt),
		kind: k, inverted: opt.Inverted, trees: [2]*node{treeOf(stacks, k, false), treeOf(stacks, k, true)},
	}
	p.chooseColors()
	return p.write(w)
}

// subtitle says when and how the Report was made.
func subtitle(r *report.Report, opt Options) string {
	parts := []string{"memtrace"}
	if opt.Version != "" {
		parts[0] += " " + clip(opt.Version)
	}
	if r.WindowNS > 0 {
		parts = append(parts, fmt.Sprintf("traced for %.1f s", float64(r.WindowNS)/1e9))
	}
	if !opt.Made.IsZero() {
		parts = append(parts, opt.Made.Format("2006-01-02 15:04:05 MST"))
	}
	return strings.Join(append(parts, notes(r)...), " · ")
}

// diffFlamegraph draws each stack as wide as it changed: red where it grew, blue
// where it shrank, and a frame above both by what is left of them.
func diffFlamegraph(w io.Writer, before, after *report.Report, opt Options) error {
	k := opt.kind()
	changes := difference(before, after, k)
	p := &picture{
		subtitle: subtitle(after, opt), kind: k, inverted: opt.Inverted, diff: true,
		trees: [2]*node{diffTree(changes, false), diffTree(changes, true)},
	}
	all := p.trees[0]
	p.title = fmt.Sprintf("%s: %s grew by %s, shrank by %s", processesOf(after), kinds[k.index()].title, amount(all.grown, k), amount(all.shrunk, k))
	return p.write(w)
}

// chooseColors gives the files that most own memory a colour each.
func (p *picture) chooseColors() {
	own := make(map[string]uint64)
	var walk func(n *node)
	walk = func(n *node) {
		own[n.module] = add(own[n.module], n.sum.figure(p.kind))
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(p.trees[0])
	p.colors, p.legend = modulePalette(own)
}

// modulePalette numbers the modules that have most, from 1 on; 0 is all others.
func modulePalette(own map[string]uint64) (colors map[string]int, legend []string) {
	delete(own, "")
	for m := range own {
		legend = append(legend, m)
	}
	slices.SortFunc(legend, func(a, b string) int {
		if own[a] != own[b] {
			if own[a] > own[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	legend = legend[:min(len(legend), maxModules)]
	colors = make(map[string]int, len(legend))
	for i, m := range legend {
		colors[m] = i + 1
	}
	return colors, legend
}

func (p *picture) write(w io.Writer) error {
	var nodes [2][]*node
	rows := 0
	for i, tree := range p.trees {
		nodes[i] = tree.place(p.kind, svgLeast/svgInner)
		for _, n := range nodes[i] {
			rows = max(rows, n.depth+1)
		}
	}
	height := svgTop + rows*svgRow + svgBottom
	p.printf(`<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-size="12">
<title>%s</title>
<style><![CDATA[%s]]></style>
<rect class="page" x="0" y="0" width="100%%" height="100%%"/>
<text class="head" x="%d" y="24">%s</text>
<text class="soft" x="%d" y="42">%s</text>
`, svgWidth, height, svgWidth, height, escape(p.title), svgCSS, svgMargin, escape(p.fit(p.title, 1.35)), svgMargin, escape(p.fit(p.subtitle, 1)))
	p.writeLegend()
	for i := range nodes {
		p.writeTree(nodes[i], i == 1)
	}
	p.printf(`<text class="soft" id="now" x="%d" y="%d"> </text>
<text class="soft" x="%d" y="%d">click: zoom · /: search · i: invert · Esc: back</text>
<text class="soft" id="found" x="%d" y="%d" text-anchor="end"> </text>
<script><![CDATA[%s]]></script>
</svg>
`, svgMargin, height-28, svgMargin, height-10, svgWidth-svgMargin, height-10, svgJS)
	_, err := w.Write(p.out.Bytes())
	return err
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

// fit cuts a line that is wider than the picture.
func (p *picture) fit(s string, scale float64) string { return shorten(s, int(svgInner/svgChar/scale)) }

func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(most-1, 0)]) + "…"
}

func (p *picture) writeLegend() {
	x := float64(svgMargin)
	names := p.legend
	if p.diff {
		names = []string{"grew", "shrank"}
	}
	for i, m := range names {
		name := shorten(path.Base(m), 28)
		class := fmt.Sprintf("c%d", i+1)
		if p.diff {
			class = name
		}
		width := 20 + svgChar*float64(utf8.RuneCountInString(name)) + 12
		if x+width > svgWidth-svgMargin {
			break
		}
		p.printf(`<rect class="%s" x="%.1f" y="53" width="11" height="11" rx="2"/><text class="soft" x="%.1f" y="63">%s</text>`+"\n", class, x, x+16, escape(name))
		x += width
	}
}

// writeTree writes the frames of one direction. The other is hidden, for the key i.
func (p *picture) writeTree(nodes []*node, inverted bool) {
	hidden := ""
	if inverted != p.inverted {
		hidden = ` style="display:none"`
	}
	id := "callees"
	if inverted {
		id = "callers"
	}
	p.printf("<g class=\"tree\" id=\"%s\"%s>\n", id, hidden)
	for _, n := range nodes {
		x, width := svgMargin+n.start*svgInner, n.size*svgInner
		y := svgTop + n.depth*svgRow
		p.printf(`<g><title>%s</title><rect class="%s"%s x="%.2f" y="%d" width="%.2f" height="%d" rx="2"/>`,
			escape(p.tooltip(n, nodes[0])), p.class(n), p.fill(n), x, y, width, svgRow-1)
		if room := int((width - 6) / svgChar); room >= 3 {
			p.printf(`<text x="%.2f" y="%d">%s</text>`, x+3, y+13, escape(shorten(n.label, room)))
		}
		p.out.WriteString("</g>\n")
	}
	p.out.WriteString("</g>\n")
}

func (p *picture) class(n *node) string {
	switch {
	case p.diff, n.depth == 0:
		return "f c0"
	}
	return fmt.Sprintf("f c%d", p.colors[n.module])
}

// fill is the colour of a difference: the fuller, the less of it is netted.
func (p *picture) fill(n *node) string {
	if !p.diff || n.grown == n.shrunk {
		return ""
	}
	share := (float64(n.grown) - float64(n.shrunk)) / (float64(n.grown) + float64(n.shrunk))
	pale := func(full int, share float64) int { return 245 - int(float64(245-full)*share) }
	if share > 0 {
		share = 0.25 + 0.75*share
		return fmt.Sprintf(` style="fill:rgb(%d,%d,%d)"`, pale(238, share), pale(106, share), pale(94, share))
	}
	share = 0.25 - 0.75*share
	return fmt.Sprintf(` style="fill:rgb(%d,%d,%d)"`, pale(92, share), pale(150, share), pale(236, share))
}

// tooltip is what a frame shows under the pointer; its first line is the name.
func (p *picture) tooltip(n, root *node) string {
	lines := []string{n.label}
	if p.diff {
		lines = append(lines, "grew by "+amount(n.grown, p.kind)+", shrank by "+amount(n.shrunk, p.kind))
	} else {
		lines = append(lines, describe(n.sum, p.kind)+", "+percent(n.sum.figure(p.kind), root.sum.figure(p.kind)))
		if own := n.own.figure(p.kind); own > 0 && len(n.children) > 0 {
			lines = append(lines, "of these, "+amount(own, p.kind)+" here")
		}
	}
	if n.source != "" {
		lines = append(lines, n.source)
	}
	if n.module != "" {
		lines = append(lines, n.module)
	}
	return strings.Join(lines, "\n")
}

// escape writes text for XML. Names have no control characters by then.
func escape(s string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(s)) // a buffer takes all
	return strings.ReplaceAll(out.String(), "&#xA;", "\n")
}
