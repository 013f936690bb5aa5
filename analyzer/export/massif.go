package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// writeMassif writes one kind as a file of Valgrind's massif: an empty snapshot at
// the start, and one with all stacks at the Report. ms_print and massif-visualizer read it.
func writeMassif(w io.Writer, r *report.Report, opt Options) error {
	k, stacks := opt.kind(), stacksOf(r)
	root := &massifNode{}
	for i := range stacks {
		if v := stacks[i].weights[k.index()].figure(k); v > 0 {
			lines := stacks[i].lines()
			root.add(lines[:min(len(lines), maxMassif)], v)
		}
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "desc: memtrace %s\ncmd: %s\ntime_unit: ms\n", kinds[k.index()].title, strings.ReplaceAll(processesOf(r), "\n", " "))
	const snapshot = "#-----------\nsnapshot=%d\n#-----------\ntime=%d\nmem_heap_B=%d\nmem_heap_extra_B=0\nmem_stacks_B=0\n"
	fmt.Fprintf(out, snapshot+"heap_tree=empty\n", 0, 0, 0)
	fmt.Fprintf(out, snapshot+"heap_tree=peak\n", 1, max(r.WindowNS/1e6, 1), root.bytes)
	root.write(out, "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", 0)
	return out.Flush()
}

// maxMassif bounds the depth of the tree, as a line is indented by its depth.
const maxMassif = 256

// massifNode is a frame with those that called it.
type massifNode struct {
	text     string
	bytes    uint64
	children []*massifNode
	byText   map[string]*massifNode
}

func (n *massifNode) add(lines []string, v uint64) {
	n.bytes = add(n.bytes, v)
	for _, line := range lines {
		c := n.byText[line]
		if c == nil {
			c = &massifNode{text: line}
			if n.byText == nil {
				n.byText = make(map[string]*massifNode)
			}
			n.byText[line] = c
			n.children = append(n.children, c)
		}
		c.bytes = add(c.bytes, v)
		n = c
	}
}

func (n *massifNode) write(w io.Writer, text string, depth int) {
	slices.SortFunc(n.children, func(a, b *massifNode) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.text, b.text))
	})
	fmt.Fprintf(w, "%sn%d: %d %s\n", strings.Repeat(" ", depth), len(n.children), n.bytes, text)
	for _, c := range n.children {
		c.write(w, c.text, depth+1)
	}
}
