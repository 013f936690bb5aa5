package probe

import (
	"debug/elf"

	"golang.org/x/arch/x86/x86asm"
)

// A block that is freed by delete, which jumps to free, must not count as
// freed twice: releases keep no depth, since their return is not probed. So
// a function that always passes the block on to another probed function is
// not probed itself, and one that sometimes does is marked.

// forwarding says whether a function passes its work on.
type forwarding uint8

const (
	forwardsNever forwarding = iota
	forwardsSometimes
	forwardsAlways
)

// entries indexes the candidates of an object by address.
type entries map[uint64]symbol

// resolve follows stubs and functions that do nothing but jump on, until it
// reaches a candidate or something else. An address outside the file's own
// knowledge resolves to itself.
func (im *image) resolve(addr uint64, known entries) uint64 {
	for range 8 {
		if _, ok := known[addr]; ok {
			return addr
		}
		to, ok := im.jump(addr)
		if !ok {
			return addr
		}
		addr = to
	}
	return addr
}

// jump returns where the code at addr leads if it is just a jump.
func (im *image) jump(addr uint64) (uint64, bool) {
	if im.file.Machine == elf.EM_AARCH64 {
		if to, ok := im.branchARM64(addr); ok {
			return to, true
		}
	} else if in, ok := im.firstInst(addr); ok && in.Op == x86asm.JMP {
		if f, target := in.flow(); f == flowJump {
			return target, true
		}
	}
	word, ok := im.stub(addr)
	if !ok {
		return 0, false
	}
	to, ok := im.slots[word]
	return to, ok
}

// stub returns the address of the word through which the code at addr jumps, if it does nothing else.
func (im *image) stub(addr uint64) (uint64, bool) {
	if im.file.Machine == elf.EM_AARCH64 {
		return im.stubARM64(addr)
	}
	in, ok := im.firstInst(addr)
	if !ok || in.Op != x86asm.JMP {
		return 0, false
	}
	mem, ok := in.Args[0].(x86asm.Mem)
	if !ok {
		return 0, false
	}
	return in.relative(mem)
}

// firstInst decodes the instruction at addr, past an endbr64.
func (im *image) firstInst(addr uint64) (x86Inst, bool) {
	code := im.code(addr, 20)
	in, err := decodeX86(code, addr)
	if err == nil && in.endbr64 {
		in, err = decodeX86(code[in.Len:], in.next())
	}
	return in, err == nil
}

// forwards decides whether fn passes its work on, and to which candidate.
func (im *image) forwards(fn symbol, known entries) (forwarding, symbol) {
	if to, ok := im.jump(fn.addr); ok {
		target, ok := known[im.resolve(to, known)]
		if ok && target.addr != fn.addr && target.shape == fn.shape && target.args == fn.args {
			return forwardsAlways, target
		}
	}
	if !fn.shape.releases() || im.file.Machine != elf.EM_X86_64 {
		return forwardsNever, symbol{}
	}
	code, ok := im.body(fn.addr, fn.size)
	if !ok {
		return forwardsNever, symbol{}
	}
	g := newGraph(code)
	last := g.markForwards(func(addr uint64) (symbol, bool) {
		target, ok := known[im.resolve(addr, known)]
		return target, ok && target.addr != fn.addr && target.shape == fn.shape
	})
	switch {
	case len(g.passesOn) == 0:
		return forwardsNever, symbol{}
	case g.worksOtherwise():
		return forwardsSometimes, last
	}
	return forwardsAlways, last
}

// graph is the control flow of a function. Nodes are indices into code.
type graph struct {
	code     body
	index    map[uint64]int // by address
	passesOn map[int]bool   // jumps and calls to another candidate
}

func newGraph(code body) *graph {
	g := &graph{code: code, index: make(map[uint64]int, len(code)), passesOn: map[int]bool{}}
	for i, in := range code {
		g.index[in.addr] = i
	}
	return g
}

// markForwards finds the transfers that leave the function for a candidate,
// and returns one of those.
func (g *graph) markForwards(candidate func(uint64) (symbol, bool)) symbol {
	var last symbol
	for i, in := range g.code {
		f, target := in.flow()
		if _, within := g.index[target]; within || f == flowNext || target == 0 {
			continue
		}
		if to, ok := candidate(target); ok {
			g.passesOn[i], last = true, to
		}
	}
	return last
}

// next returns the nodes that control may reach from node i, and whether it
// may also leave the function there.
func (g *graph) next(i int) (nodes []int, leaves bool) {
	f, target := g.code[i].flow()
	if f == flowJump || f == flowBranch {
		if to, ok := g.index[target]; ok {
			nodes = append(nodes, to)
		} else {
			leaves = true
		}
	}
	switch {
	case f == flowEnd:
		leaves = true
	case f == flowJump:
	case i+1 < len(g.code):
		nodes = append(nodes, i+1)
	default: // runs into what follows
		leaves = true
	}
	return nodes, leaves
}

// worksOtherwise says whether some path through the function passes nothing
// on and yet does more than look: calls, stores, or leaves for other code.
// Such a path may release the block by itself.
func (g *graph) worksOtherwise() bool {
	into := make([][]int, len(g.code)) // edges of the paths that pass nothing on, reversed
	var exits []int
	seen := map[int]bool{0: true}
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		if g.passesOn[i] {
			continue
		}
		nodes, leaves := g.next(i)
		if leaves {
			exits = append(exits, i)
		}
		for _, n := range nodes {
			into[n] = append(into[n], i)
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return g.anyWork(exits, into)
}

// anyWork searches backwards from exits.
func (g *graph) anyWork(exits []int, into [][]int) bool {
	seen := map[int]bool{}
	for queue := exits; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		if seen[i] || g.passesOn[i] {
			continue
		}
		seen[i] = true
		if g.works(i) {
			return true
		}
		queue = append(queue, into[i]...)
	}
	return false
}

// works says whether node i may have an effect beyond the function.
func (g *graph) works(i int) bool {
	in := g.code[i]
	if in.Op == x86asm.RET || in.Op == x86asm.POP || in.Op == x86asm.LEAVE {
		return false
	}
	switch f, _ := in.flow(); f {
	case flowNext:
		_, known := effectOf(in)
		restores := in.Op == x86asm.ADD && in.Args[0] == x86asm.RSP
		return !known && !restores
	case flowJump, flowBranch:
		_, leaves := g.next(i)
		return leaves
	}
	return true
}
