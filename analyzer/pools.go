package analyzer

import (
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// pools are the pools of one process and the live blocks in each: memory
// contexts, arenas, whatever ends blocks together. It exists only once an event
// has told of a pool.
//
// Each block of a pool has a node in the pool's list and is found by its
// address, so that a block ends in constant time and a pool in that of its
// blocks. There are as many nodes as blocks, so they need no bound of their own.
//
//	pool ─first─> node <─> node <─> node     child pools: ─child─> pool <─> pool
type pools struct {
	byAddr map[uint64]poolID
	all    []pool // [0] is none
	gone   []poolID
	byNode map[uint64]nodeID // by the block's address
	nodes  []poolNode        // [0] is none
	unused nodeID            // the first of a list
	names  map[uint64]string // by the address of the text
	beyond uint64            // blocks of pools of which there were too many
}

type (
	poolID uint32
	nodeID uint32
)

type pool struct {
	addr                      uint64
	parent, child, prev, next poolID
	first                     nodeID
	name                      string
	text                      uint64        // the address of its name, as an event told
	made                      event.StackID // the call that made it, if it has no name
	count, bytes              uint64
	extra                     excess
}

type poolNode struct {
	addr       uint64
	prev, next nodeID
	pool       poolID
}

const (
	maxPools     = 1 << 20 // of one process
	maxPoolNames = 1 << 12
	maxPoolDepth = 1 << 10 // of pools within pools; no program that works gets there
)

// An UnnamedPool is a pool whose name is to be read in the process's memory: PoolName is the answer.
type UnnamedPool struct {
	PID  uint32
	Pool uint64 // its address
	Text uint64 // that of its name; 0: it was made before the trace, and its own record has it
}

func newPools() *pools {
	return &pools{
		byAddr: make(map[uint64]poolID), all: make([]pool, 1), byNode: make(map[uint64]nodeID),
		nodes: make([]poolNode, 1), names: make(map[uint64]string),
	}
}

// of returns the pool at an address, which may be new; 0 if there are too many.
func (ps *pools) of(addr uint64) poolID {
	id, ok := ps.byAddr[addr]
	if ok || addr == 0 {
		return id
	}
	switch n := len(ps.gone); {
	case n > 0:
		id, ps.gone = ps.gone[n-1], ps.gone[:n-1]
	case len(ps.all) > maxPools:
		return 0
	default:
		id = poolID(len(ps.all))
		ps.all = append(ps.all, pool{})
	}
	ps.all[id] = pool{addr: addr}
	ps.byAddr[addr] = id
	return id
}

// enter puts a block that has just become live into the pool at an address. It
// returns the pool if that was not known before, else 0.
func (ps *pools) enter(b block, at uint64, x excess) (fresh poolID) {
	known := len(ps.byAddr)
	id := ps.of(at)
	if id == 0 {
		ps.beyond++
		return 0
	}
	if len(ps.byAddr) > known {
		fresh = id
	}
	n := ps.unused
	if n != 0 {
		ps.unused = ps.nodes[n].next
	} else {
		n = nodeID(len(ps.nodes))
		ps.nodes = append(ps.nodes, poolNode{})
	}
	p := &ps.all[id]
	ps.nodes[n] = poolNode{addr: b.addr, next: p.first, pool: id}
	ps.nodes[p.first].prev = n // of none, where the list is empty
	p.first = n
	ps.byNode[b.addr] = n
	p.count++
	p.bytes += b.size
	p.extra.add(x)
	return fresh
}

// leave takes a block that has ended out of its pool, if it is in one.
func (ps *pools) leave(b block, x excess) {
	n, ok := ps.byNode[b.addr]
	if !ok {
		return
	}
	delete(ps.byNode, b.addr)
	node := ps.nodes[n]
	p := &ps.all[node.pool]
	if node.prev == 0 {
		p.first = node.next
	} else {
		ps.nodes[node.prev].next = node.next
	}
	ps.nodes[node.next].prev = node.prev
	ps.nodes[n] = poolNode{next: ps.unused}
	ps.unused = n
	p.count--
	p.bytes -= b.size
	p.extra.sub(x)
}

// poolOf returns the address of the pool that a block is in; 0: in none.
func (ps *pools) poolOf(addr uint64) uint64 {
	if ps == nil {
		return 0
	}
	return ps.all[ps.nodes[ps.byNode[addr]].pool].addr
}

// attach puts a pool below another one, 0 for none. A pool can't be below itself.
func (ps *pools) attach(id, parent poolID) {
	ps.detach(id)
	for depth, up := 0, parent; up != 0; up = ps.all[up].parent {
		if depth++; up == id || depth > maxPoolDepth {
			return
		}
	}
	if parent == 0 {
		return
	}
	p, q := &ps.all[id], &ps.all[parent]
	p.parent, p.next = parent, q.child
	ps.all[q.child].prev = id
	q.child = id
}

func (ps *pools) detach(id poolID) {
	p := &ps.all[id]
	if p.parent == 0 {
		return
	}
	if p.prev == 0 {
		ps.all[p.parent].child = p.next
	} else {
		ps.all[p.prev].next = p.next
	}
	ps.all[p.next].prev = p.prev
	p.parent, p.prev, p.next = 0, 0, 0
}

// below lists the pools below one, parents first.
func (ps *pools) below(id poolID) (list []poolID) {
	for c := ps.all[id].child; c != 0; c = ps.all[c].next {
		list = append(list, c)
	}
	for i := 0; i < len(list); i++ {
		for c := ps.all[list[i]].child; c != 0; c = ps.all[c].next {
			list = append(list, c)
		}
	}
	return list
}

// drop forgets a pool that has no blocks.
func (ps *pools) drop(id poolID) {
	for c := ps.all[id].child; c != 0; c = ps.all[id].child {
		ps.detach(c)
	}
	ps.detach(id)
	delete(ps.byAddr, ps.all[id].addr)
	ps.all[id] = pool{}
	ps.gone = append(ps.gone, id)
}

// clone copies the pools for a child that has copies of all blocks.
func (ps *pools) clone() *pools {
	if ps == nil {
		return nil
	}
	c := *ps
	c.byAddr, c.byNode, c.names = maps.Clone(ps.byAddr), maps.Clone(ps.byNode), maps.Clone(ps.names)
	c.all, c.nodes, c.gone = slices.Clone(ps.all), slices.Clone(ps.nodes), slices.Clone(ps.gone)
	return &c
}

// nameOf is what a pool is called by the program, "" if that is not known.
func (ps *pools) nameOf(own *pool) string {
	if own.name == "" && own.text != 0 {
		return ps.names[own.text]
	}
	return own.name
}

// setText has a pool be called by the text at an address. It reports whether that is to be read.
func (ps *pools) setText(id poolID, addr uint64) bool {
	own := &ps.all[id]
	own.name, own.text = "", addr
	if addr == 0 {
		return false
	}
	if _, asked := ps.names[addr]; asked {
		return false
	}
	if len(ps.names) < maxPoolNames {
		ps.names[addr] = ""
	}
	return true
}

// setName takes the answer to a question.
func (ps *pools) setName(v input.PoolName) {
	if kept, asked := ps.names[v.Text]; v.Text != 0 && asked {
		switch {
		case v.Name != "":
			ps.names[v.Text] = v.Name
		case kept == "":
			delete(ps.names, v.Text) // it may be there another time
		}
	}
	id, ok := ps.byAddr[v.Pool]
	if !ok {
		return
	}
	if own := &ps.all[id]; own.text == v.Text && (v.Text != 0 || own.name == "") {
		own.name = v.Name
	}
}
