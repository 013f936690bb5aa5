package analyzer

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/procfs"
	"golang.org/x/sys/unix"
)

// testBlock is a block of a test's own making.
type testBlock struct {
	addr, size uint64
	site       uint32
}

func yieldBlocks(blocks []testBlock) Blocks {
	return func(yield func(addr, size uint64, site uint32) bool) {
		for _, b := range blocks {
			if !yield(b.addr, b.size, b.site) {
				return
			}
		}
	}
}

// mapPages maps private memory of this process between two pages that cannot
// be accessed, so that it is a mapping of its own, and touches no page of it.
func mapPages(t testing.TB, pages int) (mem []byte, addr uint64) {
	t.Helper()
	size := pages * int(pageBytes)
	all, err := unix.Mmap(-1, 0, size+2*int(pageBytes), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	mem = all[pageBytes:][:size:size]
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	return mem, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
}

// resident asks mincore(2) which pages of mem are in memory.
func resident(t testing.TB, mem []byte) []byte {
	t.Helper()
	vec := make([]byte, len(mem)/int(pageBytes))
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mem))),
		uintptr(len(mem)), uintptr(unsafe.Pointer(unsafe.SliceData(vec))))
	if errno != 0 {
		t.Fatal(errno)
	}
	return vec
}

func openSelf(t testing.TB) *procfs.Process {
	t.Helper()
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestResidentBytesAgainstMincore lays random blocks over randomly touched
// memory and compares each site's bytes with what mincore says.
func TestResidentBytesAgainstMincore(t *testing.T) {
	const pages, sites = 3000, 50 // some six chunks of page states
	rnd := rand.New(rand.NewPCG(1, 2))
	mem, addr := mapPages(t, pages)
	for page := range pages {
		if rnd.IntN(3) == 0 || page >= 1000 && page < 1700 {
			mem[page*int(pageBytes)+rnd.IntN(int(pageBytes))] = 1
		}
	}
	blocks := randomBlocks(rnd, addr, uint64(len(mem)), sites)
	vec := resident(t, mem)
	want := make([]SiteMemory, sites)
	for _, b := range blocks {
		for at := b.addr; at < b.addr+b.size; { // page by page
			end := min(b.addr+b.size, at/pageBytes*pageBytes+pageBytes)
			if vec[(at-addr)/pageBytes]&1 != 0 {
				want[b.site].Resident += end - at
			} else {
				want[b.site].Untouched += end - at
			}
			at = end
		}
	}
	rnd.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	var r Residency
	got, err := r.Measure(openSelf(t), nil, sites, yieldBlocks(blocks))
	if err != nil {
		t.Fatal(err)
	}
	var sum SiteMemory
	for site := range want {
		sum.add(want[site])
		if got.Sites[site] != want[site] {
			t.Errorf("site %d: got %+v, want %+v", site, got.Sites[site], want[site])
		}
	}
	if got.Blocks != sum || sum.Resident == 0 || sum.Untouched == 0 {
		t.Errorf("sum: got %+v, want %+v", got.Blocks, sum)
	}
	checkSplit(t, got)
	if got.RSSBy.HeapLive != sum.Resident {
		t.Errorf("heap_live is %d; %d bytes of live blocks are resident", got.RSSBy.HeapLive, sum.Resident)
	}
}

// randomBlocks fills size bytes at addr with blocks, gaps, and blocks of no size.
func randomBlocks(rnd *rand.Rand, addr, size uint64, sites uint32) (blocks []testBlock) {
	for at := addr; ; {
		n := rnd.Uint64N(300)
		switch rnd.IntN(20) {
		case 0:
			n = rnd.Uint64N(5 << 20)
		case 1, 2:
			n = rnd.Uint64N(50_000)
		case 3:
			n = 0
		}
		at += rnd.Uint64N(2) * rnd.Uint64N(64)
		if at+n > addr+size {
			return blocks
		}
		blocks = append(blocks, testBlock{at, n, rnd.Uint32N(sites)})
		at += n
	}
}

// checkSplit checks what must hold of any Residence.
func checkSplit(t *testing.T, r Residence) {
	t.Helper()
	if r.RSSBy.Sum() != r.Usage.RSS {
		t.Errorf("parts add up to %d, RSS is %d: %+v", r.RSSBy.Sum(), r.Usage.RSS, r.RSSBy)
	}
	if u := r.Usage; u.RSS == 0 || u.Anon+u.File+u.Shmem != u.RSS || u.USS > u.RSS || u.PSS > u.RSS {
		t.Errorf("usage %+v", u)
	}
}

// TestBlockEnds: blocks that begin and end on, just before and
// just behind a page, where one page in 64 is resident.
func TestBlockEnds(t *testing.T) {
	mem, addr := mapPages(t, 2048)
	for page := 0; page < 2048; page += 64 {
		mem[page*int(pageBytes)] = 1
	}
	vec := resident(t, mem)
	var r Residency
	p := openSelf(t)
	for _, from := range []uint64{0, 1, pageBytes - 1, pageBytes, pageBytes + 1, 63*pageBytes + 5, 64 * pageBytes} {
		for _, to := range []uint64{64*pageBytes - 1, 64 * pageBytes, 64*pageBytes + 1, 65 * pageBytes, 512 * pageBytes, 2048*pageBytes - 3, 2048 * pageBytes} {
			if to <= from {
				continue
			}
			var want SiteMemory
			for page := range uint64(len(vec)) {
				lo, hi := max(from, page*pageBytes), min(to, page*pageBytes+pageBytes)
				if lo < hi && vec[page]&1 != 0 {
					want.Resident += hi - lo
				} else if lo < hi {
					want.Untouched += hi - lo
				}
			}
			got, err := r.Measure(p, nil, 1, yieldBlocks([]testBlock{{addr + from, to - from, 0}}))
			if err != nil || got.Sites[0] != want {
				t.Fatalf("from %d to %d: got %+v, %v; want %+v", from, to, got.Sites[0], err, want)
			}
		}
	}
}

// TestBlocksThatCannotBe: unmapped, half mapped, endless, of an unknown site.
func TestBlocksThatCannotBe(t *testing.T) {
	mem, addr := mapPages(t, 4)
	mem[0], mem[3*pageBytes] = 1, 1
	end := addr + 4*pageBytes
	blocks := []testBlock{
		{0x1000, 100, 0},          // below mmap_min_addr or unmapped
		{1<<63 + 5, 64, 1},        // not user memory
		{addr, 0, 2},              // of no size
		{end - pageBytes, 0, 2},   // the same
		{1<<64 - 4, 100, 3},       // wraps around
		{end - 10, 20, 4},         // half in the inaccessible page behind it
		{addr + 5, 10, 4_000_000}, // of a site that doesn't exist
		{addr + 100, 2 * pageBytes, 5},
	}
	var r Residency
	got, err := r.Measure(openSelf(t), nil, 6, yieldBlocks(blocks))
	if err != nil {
		t.Fatal(err)
	}
	want := []SiteMemory{
		{Unknown: 100}, {Unknown: 64}, {}, {Unknown: 3}, {Resident: 10, Untouched: 10},
		{Resident: pageBytes - 100, Untouched: pageBytes + 100},
	}
	for site := range want {
		if got.Sites[site] != want[site] {
			t.Errorf("site %d: got %+v, want %+v", site, got.Sites[site], want[site])
		}
	}
	if got.Blocks.Resident != 10+10+pageBytes-100 {
		t.Errorf("sum %+v", got.Blocks)
	}
	checkSplit(t, got)
}

func TestMeasureOfDeadProcess(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	_ = stdin.Close()
	_ = cmd.Wait()
	var r Residency
	if _, err := r.Measure(p, nil, 0, yieldBlocks(nil)); !errors.Is(err, procfs.ErrGone) {
		t.Errorf("Measure: %v", err)
	}
	if _, err := ReadBaseline(p); !errors.Is(err, procfs.ErrGone) {
		t.Errorf("ReadBaseline: %v", err)
	}
}

// TestBaselineOfSelf maps memory before and after taking the baseline. A
// [heap] of the test's own, which cgo makes, comes on top.
func TestBaselineOfSelf(t *testing.T) {
	old, oldAddr := mapPages(t, 8)
	base, err := ReadBaseline(openSelf(t))
	if err != nil {
		t.Fatal(err)
	}
	young, youngAddr := mapPages(t, 8)
	for page := range 8 {
		old[page*int(pageBytes)], young[page*int(pageBytes)] = 1, 1
	}
	blocks := yieldBlocks([]testBlock{{oldAddr, pageBytes, 0}, {youngAddr, 3 * pageBytes, 0}})
	var r Residency
	got, err := r.Measure(openSelf(t), base, 1, blocks)
	if err != nil {
		t.Fatal(err)
	}
	checkSplit(t, got)
	by := got.RSSBy
	if by.HeapLive != 4*pageBytes || by.HeapBeforeAttach < 7*pageBytes || by.HeapOverhead < 5*pageBytes {
		t.Errorf("pages of live blocks 4, before attach 7, overhead 5; got %+v", by)
	}
}

// BenchmarkMeasure passes over a million blocks in hash order.
func BenchmarkMeasure(b *testing.B) {
	const count = 1 << 20
	mem, addr := mapPages(b, count*96/int(pageBytes)+1)
	for i := 0; i < len(mem); i += 2 * int(pageBytes) {
		mem[i] = 1
	}
	blocks := make([]testBlock, count)
	for i := range blocks {
		blocks[i] = testBlock{addr + uint64(i)*96, 80, uint32(i % 1000)}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(count, func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	p := openSelf(b)
	var r Residency
	yield := yieldBlocks(blocks)
	b.ReportAllocs()
	var read float64
	for b.Loop() {
		res, err := r.Measure(p, nil, 1000, yield)
		if err != nil {
			b.Fatal(err)
		}
		read += float64(res.ReadTime.Nanoseconds())
	}
	b.ReportMetric((float64(b.Elapsed().Nanoseconds())-read)/float64(b.N)/count, "ns/block")
	b.ReportMetric(read/float64(b.N), "ns-reading/op")
}
