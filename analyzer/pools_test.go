package analyzer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

func (t *trace) poolAlloc(addr, size, pool uint64) *trace {
	return t.add(event.Event{Kind: event.Alloc, Addr: addr, Size: size, Flags: event.FlagPooled, Old: pool})
}

func (t *trace) poolBegin(pool, parent, name uint64) *trace {
	return t.add(event.Event{Kind: event.PoolBegin, Addr: pool, Old: parent, Size: name})
}

func (t *trace) poolChange(pool uint64, c event.Change, other uint64) *trace {
	return t.add(event.Event{Kind: event.PoolChange, Addr: pool, Child: uint32(c), Size: other})
}

// namesByAddress calls a pool by the letters at its name's address.
type namesByAddress map[uint64]string

func (n namesByAddress) answer(a *Analyzer) {
	for _, q := range a.UnnamedPools(true) {
		in := input.PoolName{PID: q.PID, Pool: q.Pool, Text: q.Text, Name: n[q.Text]}
		if q.Text == 0 {
			in.Name = n[q.Pool]
		}
		a.give(in)
	}
}

const (
	poolA = 0x1000 * (1 + iota)
	poolB // below A
	poolC // below B
	poolD
)

// familyOfPools has a block of 10 bytes in A, of 20 in B, of 40 in C, of 80 in D.
func familyOfPools() *trace {
	t := &trace{}
	t.poolBegin(poolA, 0, 1).poolBegin(poolB, poolA, 2).poolBegin(poolC, poolB, 3).poolBegin(poolD, 0, 4)
	return t.poolAlloc(0x100, 10, poolA).poolAlloc(0x200, 20, poolB).poolAlloc(0x300, 40, poolC).poolAlloc(0x400, 80, poolD)
}

// livePools runs a trace and returns the live bytes of each name of a pool.
func livePools(t *testing.T, tr *trace) (map[string]uint64, *report.Report) {
	t.Helper()
	a := New(Config{Start: testStart, FollowForks: true, NamePools: true})
	t.Cleanup(a.Close)
	onTape(t, a)
	a.AddProcess(ProcessInfo{PID: testPID})
	a.Apply(tr.events)
	namesByAddress{1: "a", 2: "b", 3: "c", 4: "d", 0x9000: "old"}.answer(a)
	r := a.reportAt(testStart+tr.time, ReportOptions{}, nil)
	p := r.Processes[0]
	live, sum := map[string]uint64{}, uint64(0)
	for _, pool := range p.Pools {
		live[pool.Name] = pool.LiveBytes
		sum += pool.LiveBytes
	}
	if sum > p.Heap.LiveBytes {
		t.Errorf("pools hold %d bytes, of %d that live", sum, p.Heap.LiveBytes)
	}
	return live, r
}

func TestWhatBecomesOfPools(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*trace)
		want map[string]uint64
	}{
		"nothing":          {func(*trace) {}, map[string]uint64{"a": 10, "b": 20, "c": 40, "d": 80}},
		"cleared alone":    {func(t *trace) { t.poolChange(poolA, event.PoolClearedAlone, 0) }, map[string]uint64{"a": 0, "b": 20, "c": 40, "d": 80}},
		"cleared":          {func(t *trace) { t.poolChange(poolA, event.PoolCleared, 0) }, map[string]uint64{"a": 0, "d": 80}},
		"ended":            {func(t *trace) { t.poolChange(poolA, event.PoolEnded, 0) }, map[string]uint64{"d": 80}},
		"children cleared": {func(t *trace) { t.poolChange(poolA, event.PoolChildrenCleared, 0) }, map[string]uint64{"a": 10, "b": 0, "c": 0, "d": 80}},
		"children ended":   {func(t *trace) { t.poolChange(poolB, event.PoolChildrenEnded, 0) }, map[string]uint64{"a": 10, "b": 20, "d": 80}},
		"moved":            {func(t *trace) { t.poolChange(poolC, event.PoolMoved, poolD).poolChange(poolA, event.PoolEnded, 0) }, map[string]uint64{"c": 40, "d": 80}},
		"moved out":        {func(t *trace) { t.poolChange(poolB, event.PoolMoved, 0).poolChange(poolA, event.PoolEnded, 0) }, map[string]uint64{"b": 20, "c": 40, "d": 80}},
		"moved in circle":  {func(t *trace) { t.poolChange(poolA, event.PoolMoved, poolC).poolChange(poolB, event.PoolEnded, 0) }, map[string]uint64{"a": 10, "d": 80}},
		"named":            {func(t *trace) { t.poolChange(poolD, event.PoolNamed, 1) }, map[string]uint64{"a": 90, "b": 20, "c": 40}},
		"freed":            {func(t *trace) { t.free(0x300) }, map[string]uint64{"a": 10, "b": 20, "c": 0, "d": 80}},
		"resized":          {func(t *trace) { t.realloc(0x300, 0x500, 50, 0, 500) }, map[string]uint64{"a": 10, "b": 20, "c": 50, "d": 80}},
		"resized, ended":   {func(t *trace) { t.realloc(0x300, 0x500, 50, 0, 500).poolChange(poolA, event.PoolEnded, 0) }, map[string]uint64{"d": 80}},
		"begun again":      {func(t *trace) { t.poolBegin(poolB, poolD, 1) }, map[string]uint64{"a": 10, "d": 80}},
		"overwritten":      {func(t *trace) { t.poolAlloc(0x300, 7, poolD) }, map[string]uint64{"a": 10, "b": 20, "c": 0, "d": 87}},
		"from before":      {func(t *trace) { t.poolAlloc(0x600, 5, 0x9000) }, map[string]uint64{"a": 10, "b": 20, "c": 40, "d": 80, "old": 5}},
		"exec":             {func(t *trace) { t.kind(event.Exec) }, map[string]uint64{}},
		"unknown":          {func(t *trace) { t.poolChange(0x7777, event.PoolEnded, 0).poolChange(poolA, 99, 0) }, map[string]uint64{"a": 10, "b": 20, "c": 40, "d": 80}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := familyOfPools()
			c.then(tr)
			live, r := livePools(t, tr)
			sum := uint64(0)
			for name, want := range c.want {
				if got, ok := live[name]; got != want || !ok {
					t.Errorf("%s holds %d bytes, want %d", name, got, want)
				}
				sum += want
			}
			if len(live) != len(c.want) || r.Processes[0].Heap.LiveBytes != sum {
				t.Errorf("%v, and %d bytes live; want %v", live, r.Processes[0].Heap.LiveBytes, c.want)
			}
		})
	}
}

// Of a sample, what ended with a pool stands for more, as what was freed does.
func TestPoolsOfASample(t *testing.T) {
	const interval, blocks = 1 << 10, 8
	tr := &trace{}
	tr.poolBegin(poolA, 0, 1)
	for i := range uint64(blocks) {
		tr.poolAlloc(0x100+i*0x100, 10, poolA)
		tr.events[len(tr.events)-1].Child = interval
	}
	stands := blocks / -math.Expm1(-10.0/interval)
	live, _ := livePools(t, tr)
	if want := stands * 10; math.Abs(float64(live["a"])-want) > blocks {
		t.Errorf("the pool holds %d bytes, want %.0f", live["a"], want)
	}
	tr.poolChange(poolA, event.PoolEnded, 0)
	_, r := livePools(t, tr)
	if math.Abs(float64(r.Events.PoolFree)-stands) > 1 || r.Events.Free != 0 || r.Processes[0].Heap.LiveBytes != 0 {
		t.Errorf("%d blocks ended with their pool, want %.0f; events %+v", r.Events.PoolFree, stands, r.Events)
	}
}

// A forked child has copies of the blocks in pools of its own.
func TestPoolsOfAChild(t *testing.T) {
	tr := familyOfPools()
	tr.add(event.Event{Kind: event.Fork, Child: 7})
	tr.poolChange(poolA, event.PoolEnded, 0)
	tr.events[len(tr.events)-1].PID = 7
	live, r := livePools(t, tr)
	if live["c"] != 40 || len(r.Processes) != 2 || r.Processes[1].Heap.LiveBytes != 80 {
		t.Errorf("the parent has %v, the child %+v", live, r.Processes[1:])
	}
}

// Lists and trees stay whole whatever comes: a simple model has the same answer.
func TestPoolsAgainstAModel(t *testing.T) {
	const blocks, poolCount = 200, 12
	rng := rand.New(rand.NewPCG(1, 2))
	tr := &trace{}
	for p := range uint64(poolCount) {
		tr.poolBegin(p+1, 0, 0)
	}
	in, size, parent := map[uint64]uint64{}, map[uint64]uint64{}, map[uint64]uint64{}
	isBelow := func(p, top uint64) bool {
		for range poolCount + 1 {
			if p = parent[p]; p == top {
				return true
			}
		}
		return false
	}
	for range 20_000 {
		addr, p, q := 0x100000+rng.Uint64N(blocks)*16, 1+rng.Uint64N(poolCount), 1+rng.Uint64N(poolCount)
		switch rng.IntN(40) {
		case 0:
			if p != q && !isBelow(q, p) {
				tr.poolChange(p, event.PoolMoved, q)
				parent[p] = q
			}
		case 1, 2:
			tr.poolChange(p, event.PoolClearedAlone, 0)
			for b := range in {
				if in[b] == p {
					delete(in, b)
				}
			}
		case 3:
			tr.poolChange(p, event.PoolChildrenCleared, 0)
			for b := range in {
				if isBelow(in[b], p) {
					delete(in, b)
				}
			}
		case 4, 5, 6, 7, 8, 9, 10:
			if in[addr] != 0 {
				tr.free(addr)
				delete(in, addr)
			}
		default:
			if in[addr] == 0 {
				tr.poolAlloc(addr, addr%97+1, p)
				in[addr], size[addr] = p, addr%97+1
			}
		}
	}
	_, r := livePools(t, tr)
	want := uint64(0)
	for b := range in {
		want += size[b]
	}
	h := r.Processes[0].Heap
	if h.LiveBytes != want || h.LiveCount != uint64(len(in)) || r.Events.Overwritten != 0 || r.Events.UnmatchedFree != 0 {
		t.Errorf("%d bytes live in %d blocks, want %d in %d; %+v", h.LiveBytes, h.LiveCount, want, len(in), r.Events)
	}
}
