package analyzer

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// heapModel is what a liveHeap must behave like.
type heapModel struct {
	t    *testing.T
	heap *liveHeap
	want map[uint64]block
}

func newHeapModel(t *testing.T) *heapModel {
	m := &heapModel{t, newTestHeap(), make(map[uint64]block)}
	t.Cleanup(m.heap.close)
	return m
}

func (m *heapModel) put(b block) {
	old, displaced, err := m.heap.put(b, m.heap.hash(b.addr))
	if err != nil {
		m.t.Fatal(err)
	}
	want, ok := m.want[b.addr]
	if displaced != ok || old != want {
		m.t.Fatalf("put %#x displaced %v %v, want %v %v", b.addr, old, displaced, want, ok)
	}
	m.want[b.addr] = b
}

func (m *heapModel) remove(addr uint64) {
	if b, ok := m.heap.get(addr, m.heap.hash(addr)); ok != (m.want[addr] != block{}) || b != m.want[addr] {
		m.t.Fatalf("get %#x = %v %v, want %v", addr, b, ok, m.want[addr])
	}
	b, ok := m.heap.remove(addr, m.heap.hash(addr))
	want, wantOK := m.want[addr]
	if ok != wantOK || b != want {
		m.t.Fatalf("remove %#x = %v %v, want %v %v", addr, b, ok, want, wantOK)
	}
	delete(m.want, addr)
}

// check compares all blocks, and the invariants of the structure.
func (m *heapModel) check() {
	m.t.Helper()
	got := make(map[uint64]block)
	for b := range m.heap.all {
		if _, twice := got[b.addr]; twice {
			m.t.Fatalf("block %#x is in the heap twice", b.addr)
		}
		got[b.addr] = b
	}
	if !maps.Equal(got, m.want) || m.heap.count != uint64(len(m.want)) {
		m.t.Fatalf("heap holds %d blocks and counts %d, want %d", len(got), m.heap.count, len(m.want))
	}
	for addr, want := range m.want {
		if b, ok := m.heap.get(addr, m.heap.hash(addr)); !ok || b != want {
			m.t.Fatalf("get %#x = %v %v, want %v", addr, b, ok, want)
		}
	}
	checkDirectory(m.t, m.heap)
}

func checkDirectory(t *testing.T, h *liveHeap) {
	t.Helper()
	entries := 0
	for i := range h.pool.used {
		s := h.pool.at(i)
		for _, k := range h.span(s) {
			if k != i {
				t.Fatalf("directory names segment %d for the prefix of %d", k, i)
			}
			entries++
		}
	}
	if entries != len(h.dir) {
		t.Fatalf("segments cover %d of %d directory entries", entries, len(h.dir))
	}
}

func randomBlock(r *rand.Rand, addrs uint64) block {
	return block{
		addr: (1 + r.Uint64N(addrs)) * 16,
		size: r.Uint64() & maxSize,
		time: r.Uint64() & maxTime,
		site: siteID(r.Uint32N(maxSites)),
	}
}

// TestLiveHeapAgainstMap grows, churns and shrinks heaps of several sizes.
func TestLiveHeapAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, addrs := range []uint64{1, 8, 200, 5_000, 60_000} {
		m := newHeapModel(t)
		for _, puts := range []int{100, 60, 50, 30, 0} { // % of operations
			for range 2 * addrs {
				if b := randomBlock(r, addrs); r.IntN(100) < puts {
					m.put(b)
				} else {
					m.remove(b.addr)
				}
			}
			m.check()
		}
	}
}

// TestLiveHeapShrinks sees that a heap that empties gives its memory back.
func TestLiveHeapShrinks(t *testing.T) {
	h := newTestHeap()
	defer h.close()
	const n = 300_000
	for i := range uint64(n) {
		if _, _, err := h.put(block{addr: 0x7f0000000000 + i*32, size: 24}, h.hash(0x7f0000000000+i*32)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(n - 1000) {
		if _, ok := h.remove(0x7f0000000000+i*32, h.hash(0x7f0000000000+i*32)); !ok {
			t.Fatalf("block %d is not there", i)
		}
	}
	checkDirectory(t, h)
	if used := h.pool.used; used > 30 {
		t.Errorf("heap uses %d segments for 1000 blocks", used)
	}
	if left := len(h.pool.chunks); left > 2 {
		t.Errorf("heap keeps %d chunks for 1000 blocks: one in use and one spare were enough", left)
	}
	h.close()
	if h.bytes() != 0 {
		t.Errorf("closed heap holds %d bytes", h.bytes())
	}
}

// TestLiveHeapDensity holds the memory of a block to 48 bytes from 100,000
// blocks on, at whatever moment of the growth.
func TestLiveHeapDensity(t *testing.T) {
	h := newTestHeap()
	defer h.close()
	for i := range uint64(600_000) {
		if _, _, err := h.put(block{addr: 0x555500000000 + i*48, size: 40}, h.hash(0x555500000000+i*48)); err != nil {
			t.Fatal(err)
		}
		if n := h.count; n >= 100_000 && n%1000 == 0 && h.bytes() > 48*n {
			t.Fatalf("%d blocks take %d bytes, %.1f each", n, h.bytes(), float64(h.bytes())/float64(n))
		}
	}
}

// TestSlotRoundTrip packs the extremes of each field.
func TestSlotRoundTrip(t *testing.T) {
	top := block{addr: 1<<64 - 1, size: maxSize, time: maxTime, site: maxSites - 1}
	for _, b := range []block{{}, top, {addr: 1 << 63}, {size: maxSize}, {time: maxTime}, {time: 1 << 40}, {site: maxSites - 1}} {
		s := pack(b)
		if got := s.block(); got != b {
			t.Errorf("pack %+v gives %+v", b, got)
		}
	}
	s := pack(block{size: 1<<64 - 1, time: 1<<64 - 1})
	if got := s.block(); got.size != maxSize || got.time != maxTime || got.site != 0 {
		t.Errorf("too large a size and time become %+v", got)
	}
}

// FuzzLiveHeap runs random programs of puts and removes over few addresses.
func FuzzLiveHeap(f *testing.F) {
	f.Add([]byte{0, 1, 2, 1}, uint16(8))
	f.Add([]byte{0, 0, 0, 255, 255, 255}, uint16(5000))
	f.Fuzz(func(t *testing.T, program []byte, spread uint16) {
		defer costtest.Bound(t)()
		m := newHeapModel(t)
		for i, op := range program {
			for k := range 40 { // enough to split and merge segments
				addr := (1 + uint64(i*40+k)%(uint64(spread)+1)) * 16
				if int(op) > (k*97+i)%256 {
					m.remove(addr)
				} else {
					m.put(block{addr: addr, size: uint64(op), time: uint64(i), site: siteID(k)})
				}
			}
		}
		m.check()
	})
}

func newTestHeap() *liveHeap { return newLiveHeap(rand.NewPCG(1, 2)) }
