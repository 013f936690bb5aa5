package analyzer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
)

// heldGoText bounds the text of one GoStacks of a Checkpoint, in bytes, by much less than a recording takes of one input.
const heldGoText = 1 << 20

// held is what an Analyzer is to be told to know a Go program's last reading, nil where there is none.
func (g *goHeap) held(pid uint32) (inputs []input.Input) {
	if g == nil {
		return nil
	}
	numbers := slices.Collect(maps.Keys(g.sites))
	slices.SortFunc(numbers, func(m, n uint32) int { return cmp.Compare(g.sites[m].id, g.sites[n].id) })
	last := g.last
	var stacks []input.GoStack
	text := 0
	for _, n := range numbers {
		s := g.sites[n]
		if n != 0 { // all others have no stack
			stacks = append(stacks, input.GoStack{Number: n, Frames: namesAsInput(s.frames)})
			for _, f := range s.frames {
				text += len(f.Function) + len(f.File) + len(f.Module)
			}
		}
		if s.now != (input.GoSite{}) {
			own := s.now
			own.Stack = n
			last.Sites = append(last.Sites, own)
		}
		if text >= heldGoText {
			inputs = append(inputs, input.GoStacks{PID: pid, Stacks: stacks})
			stacks, text = nil, 0
		}
	}
	if len(stacks) > 0 {
		inputs = append(inputs, input.GoStacks{PID: pid, Stacks: stacks})
	}
	return append(inputs, last)
}
