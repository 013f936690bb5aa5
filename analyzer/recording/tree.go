package recording

import (
	"math/bits"
	"math/rand/v2"
)

// Stacks of one block lie in a tree, from the outermost frame inwards. A stack says at which node it leaves what was
// there, and has the frames from there on. Node 0 is the root; the others have numbers from 1 on, in their order.
//
// Most stacks leave on the way of the one before, and say how far up that is.

type treeKey struct {
	frame  uint64
	parent uint32
}

type treeEncoder struct {
	nodes  []treeKey // by their numbers - 1
	slots  []uint64  // open addressing: a part of the hash, and a node's number; 0: empty
	path   []uint32  // nodes of the stack that is being added, or was added last
	was    int       // frames of the one before
	shared int       // of those, how many it shares
	met    int       // and how many the tree has

	// key is random, so that a program can't choose frames that collide. The file doesn't depend on it.
	key [2]uint64
}

func newTreeEncoder() treeEncoder {
	return treeEncoder{slots: make([]uint64, leastSlots), key: [2]uint64{rand.Uint64(), rand.Uint64() | 1}}
}

func (x *treeEncoder) reset() {
	if len(x.nodes) > 0 {
		clear(x.slots)
	}
	x.nodes, x.path = x.nodes[:0], x.path[:0]
}

func (x *treeEncoder) hash(k treeKey) uint64 {
	hi, lo := bits.Mul64(k.frame^x.key[0], x.key[1]+uint64(k.parent)<<1)
	return hi ^ lo
}

// slotOf returns the slot of a node, or the empty one where it is to be.
func (x *treeEncoder) slotOf(k treeKey, hash uint64) uint64 {
	mask := uint64(len(x.slots) - 1)
	s := hash & mask
	for ; x.slots[s] != 0; s = (s + 1) & mask {
		if (x.slots[s]^hash)>>32 == 0 && x.nodes[uint32(x.slots[s])-1] == k {
			break
		}
	}
	return s
}

// begin begins a stack that shares so many frames with the one before.
func (x *treeEncoder) begin(shared int) {
	x.was, x.shared, x.met = len(x.path), shared, shared
	x.path = x.path[:shared]
}

func (x *treeEncoder) node() uint32 {
	if n := len(x.path); n > 0 {
		return x.path[n-1]
	}
	return 0
}

// follow goes to where the stack's next frame is, if the tree has it.
func (x *treeEncoder) follow(frame uint64) bool {
	k := treeKey{frame, x.node()}
	next := uint32(x.slots[x.slotOf(k, x.hash(k))])
	if next == 0 {
		return false
	}
	x.path = append(x.path, next)
	x.met++
	return true
}

// grow adds the stack's next frame, which the tree has not.
func (x *treeEncoder) grow(frame uint64) {
	k := treeKey{frame, x.node()}
	hash := x.hash(k)
	x.nodes = append(x.nodes, k)
	number := uint32(len(x.nodes))
	x.slots[x.emptySlot(hash)] = hash&^(1<<32-1) | uint64(number)
	x.path = append(x.path, number)
	if len(x.nodes)*2 > len(x.slots) {
		x.widen()
	}
}

func (x *treeEncoder) emptySlot(hash uint64) uint64 {
	mask := uint64(len(x.slots) - 1)
	s := hash & mask
	for x.slots[s] != 0 {
		s = (s + 1) & mask
	}
	return s
}

func (x *treeEncoder) widen() {
	x.slots = make([]uint64, 2*len(x.slots))
	for i, k := range x.nodes {
		hash := x.hash(k)
		x.slots[x.emptySlot(hash)] = hash&^(1<<32-1) | uint64(i+1)
	}
}

// branch tells the node where the stack leaves the tree, before it grows.
func (x *treeEncoder) branch() uint64 {
	if x.met == x.shared {
		return uint64(x.was-x.shared) << 1
	}
	return uint64(x.node())<<1 | 1
}

type treeNode struct {
	parent uint32
	depth  uint32
	frame  uint64
}

type treeDecoder struct {
	nodes []treeNode
	leaf  uint32 // of the stack before
}

func (x *treeDecoder) reset() { x.nodes, x.leaf = append(x.nodes[:0], treeNode{}), 0 }

// begin begins a stack with what treeEncoder.branch has told, and so many frames that are to be added. It may have
// so many in all.
func (x *treeDecoder) begin(branch uint64, more, most int) bool {
	node := branch >> 1
	if branch&1 == 0 {
		up := node
		if up > uint64(x.nodes[x.leaf].depth) {
			return false
		}
		node = uint64(x.leaf)
		for ; up > 0; up-- {
			node = uint64(x.nodes[node].parent)
		}
	}
	if node >= uint64(len(x.nodes)) || int(x.nodes[node].depth)+more > most {
		return false
	}
	x.leaf = uint32(node)
	return true
}

// grow adds the stack's next frame.
func (x *treeDecoder) grow(frame uint64) {
	x.nodes = append(x.nodes, treeNode{x.leaf, x.nodes[x.leaf].depth + 1, frame})
	x.leaf = uint32(len(x.nodes) - 1)
}

// depth is how many frames the stack has.
func (x *treeDecoder) depth() int { return int(x.nodes[x.leaf].depth) }
