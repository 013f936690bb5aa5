package analyzer

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// A fakeVMA is a mapping of a made-up process. Pages are given one letter
// each: P present, S swapped, - neither; addresses in pages.
type fakeVMA struct {
	start int
	pages string
	perms string
	path  string
	anon  int // pages of rss that are anonymous; -1 means all
}

// fakeProcess writes a /proc with one process of these mappings and returns
// it and its directory.
func fakeProcess(t *testing.T, vmas []fakeVMA) (p *procfs.Process, dir string) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "77")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	rewriteProcess(t, dir, vmas)
	fs, err := procfs.New(root)
	if err != nil {
		t.Fatal(err)
	}
	p, err = fs.Process(77)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, dir
}

func rewriteProcess(t *testing.T, dir string, vmas []fakeVMA) {
	t.Helper()
	var maps, smaps strings.Builder
	pagemap := make([]byte, 8*4096)
	rss := 0
	for _, v := range vmas {
		head := fmt.Sprintf("%08x-%08x %s 00000000 00:00 0    %s\n",
			uint64(v.start)*pageBytes, uint64(v.start+len(v.pages))*pageBytes, v.perms, v.path)
		present, swapped := strings.Count(v.pages, "P"), strings.Count(v.pages, "S")
		anon := v.anon
		if anon < 0 {
			anon = present
		}
		rss += present
		kb := int(pageBytes >> 10)
		maps.WriteString(head)
		fmt.Fprintf(&smaps, "%sRss: %d kB\nPss: %d kB\nPrivate_Dirty: %d kB\nAnonymous: %d kB\nSwap: %d kB\n",
			head, present*kb, present*kb, present*kb, anon*kb, swapped*kb)
		for i, c := range v.pages {
			entry := map[rune]procfs.PageEntry{'P': procfs.EntryPresent, 'S': procfs.EntrySwapped}[c]
			binary.NativeEndian.PutUint64(pagemap[8*(v.start+i):], uint64(entry))
		}
	}
	rollup := fmt.Sprintf("0-1 ---p 00000000 00:00 0 [rollup]\nRss: %d kB\nPss: %d kB\n", rss*int(pageBytes>>10), rss*int(pageBytes>>10)-1)
	for name, data := range map[string]string{
		"maps": maps.String(), "smaps": smaps.String(), "smaps_rollup": rollup,
		"pagemap": string(pagemap), "stat": "77 (fake) S 1 " + strings.Repeat("0 ", 30),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// pagesOf divides by the page size, so that expectations read in pages.
func pagesOf(by report.RSSBy) report.RSSBy {
	for _, f := range []*uint64{&by.HeapLive, &by.HeapOverhead, &by.HeapBeforeAttach, &by.AnonMmap, &by.File, &by.Stack, &by.Shmem, &by.Other} {
		*f /= pageBytes
	}
	return by
}

// atPages is a block of whole pages.
func atPages(start, n int, site uint32) testBlock {
	return testBlock{uint64(start) * pageBytes, uint64(n) * pageBytes, site}
}

// everyKind has one mapping of each kind. Pages 16 to 23 are the program.
var everyKind = []fakeVMA{
	{16, "PPP", "r-xp", "/bin/program", 0},
	{19, "PP-", "rw-p", "/bin/program", 1}, // .data, of which one page was written
	{22, "PP", "rw-p", "", -1},             // .bss: begins where .data ends
	{32, "PPPP-SS-", "rw-p", "[heap]", -1},
	{64, "PPPPPP--", "rw-p", "", -1}, // an arena
	{72, "--------", "---p", "", -1},
	{80, "PPP", "rw-p", "", -1}, // other anonymous memory
	{90, "P", "r--s", "/usr/lib/cache", 0},
	{96, "PP", "rw-s", "/dev/zero (deleted)", 0},
	{99, "PPP", "rw-s", "/memfd:buffer (deleted)", 0},
	{110, "PP", "rw-p", "/dev/shm/copied", 1}, // one page was copied on write
	{120, "PPPP", "rw-p", "[stack]", -1},
	{130, "P", "r-xp", "[vdso]", 0},
}

func TestSplitOfEveryKind(t *testing.T) {
	p, _ := fakeProcess(t, everyKind)
	blocks := []testBlock{
		atPages(33, 4, 0), // pages 33 to 36: three present, one absent
		atPages(37, 1, 1), // swapped
		atPages(64, 2, 2),
		{67*pageBytes + 10, 20, 2},
	}
	var r Residency
	got, err := r.Measure(p, nil, 3, yieldBlocks(blocks))
	if err != nil {
		t.Fatal(err)
	}
	checkSplit(t, got)
	want := []SiteMemory{
		{Resident: 3 * pageBytes, Untouched: pageBytes},
		{Swapped: pageBytes},
		{Resident: 2*pageBytes + 20},
	}
	for site := range want {
		if got.Sites[site] != want[site] {
			t.Errorf("site %d: got %+v, want %+v", site, got.Sites[site], want[site])
		}
	}
	if live := 5*pageBytes + 20; got.RSSBy.HeapLive != live || got.RSSBy.HeapOverhead != 10*pageBytes-live {
		t.Errorf("heap_live %d, overhead %d", got.RSSBy.HeapLive, got.RSSBy.HeapOverhead)
	}
	by := pagesOf(got.RSSBy)
	// other: written .data, .bss, the copied page of /dev/shm, vdso.
	if by.AnonMmap != 3 || by.File != 3+1+1 || by.Stack != 4 || by.Shmem != 2+3+1 || by.Other != 1+2+1+1 {
		t.Errorf("%+v", by)
	}
	u := got.Usage
	if u.Swap != 2*pageBytes || u.Shmem != 6*pageBytes || u.File != 6*pageBytes || u.Anon != u.RSS-12*pageBytes || u.PSS != u.RSS-1024 {
		t.Errorf("usage in bytes: %+v", u)
	}
}

// TestHeapBeforeAttach: the arena was four pages long at the attach and grew;
// [heap] is older as a whole.
func TestHeapBeforeAttach(t *testing.T) {
	p, dir := fakeProcess(t, []fakeVMA{
		{32, "PPPPPPPP", "rw-p", "[heap]", -1},
		{64, "PPPP", "rw-p", "", -1},
		{80, "PPP", "rw-p", "", -1},
	})
	base, err := ReadBaseline(p)
	if err != nil {
		t.Fatal(err)
	}
	after := []fakeVMA{
		{32, "PPPPPPPP", "rw-p", "[heap]", -1},
		{64, "PPPPPPP-", "rw-p", "", -1},
		{80, "PPP", "rw-p", "", -1},
	}
	rewriteProcess(t, dir, after)
	var r Residency
	blocks := yieldBlocks([]testBlock{atPages(33, 2, 0), atPages(67, 2, 0)}) // one straddles old and new
	got, err := r.Measure(p, base, 1, blocks)
	if err != nil {
		t.Fatal(err)
	}
	want := report.RSSBy{HeapLive: 4, HeapBeforeAttach: 6 + 3, HeapOverhead: 2, AnonMmap: 3}
	if by := pagesOf(got.RSSBy); by != want {
		t.Errorf("got %+v, want %+v", by, want)
	}

	t.Run("freed blocks leave their mapping heap", func(t *testing.T) {
		got, err := r.Measure(p, base, 1, yieldBlocks(nil))
		if err != nil {
			t.Fatal(err)
		}
		want := report.RSSBy{HeapBeforeAttach: 8 + 4, HeapOverhead: 3, AnonMmap: 3}
		if by := pagesOf(got.RSSBy); by != want {
			t.Errorf("got %+v, want %+v", by, want)
		}
	})
	t.Run("unmapped memory is forgotten", func(t *testing.T) {
		rewriteProcess(t, dir, after[:1])
		if _, err := r.Measure(p, base, 1, yieldBlocks(nil)); err != nil {
			t.Fatal(err)
		}
		rewriteProcess(t, dir, after)
		got, err := r.Measure(p, base, 1, yieldBlocks([]testBlock{atPages(81, 1, 0)}))
		if err != nil {
			t.Fatal(err)
		}
		want := report.RSSBy{HeapLive: 1, HeapBeforeAttach: 8, HeapOverhead: 2, AnonMmap: 7}
		if by := pagesOf(got.RSSBy); by != want {
			t.Errorf("got %+v, want %+v", by, want)
		}
	})
}

// TestReadingsOfTwoInstants: between smaps and pagemap the process touched
// more pages, and gave others back. The parts still add up.
func TestReadingsOfTwoInstants(t *testing.T) {
	p, dir := fakeProcess(t, []fakeVMA{{32, "PP------", "rw-p", "[heap]", -1}, {64, "PPPPPPPP", "rw-p", "", -1}})
	smaps, err := os.ReadFile(filepath.Join(dir, "smaps"))
	if err != nil {
		t.Fatal(err)
	}
	rewriteProcess(t, dir, []fakeVMA{{32, "PPPPPPPP", "rw-p", "[heap]", -1}, {64, "--------", "rw-p", "", -1}})
	if err := os.WriteFile(filepath.Join(dir, "smaps"), smaps, 0o644); err != nil {
		t.Fatal(err)
	}
	var r Residency
	got, err := r.Measure(p, nil, 1, yieldBlocks([]testBlock{atPages(32, 7, 0), atPages(64, 8, 0)}))
	if err != nil {
		t.Fatal(err)
	}
	want := report.RSSBy{HeapLive: 2, HeapOverhead: 8}
	if by := pagesOf(got.RSSBy); by != want || got.RSSBy.Sum() != got.Usage.RSS {
		t.Errorf("got %+v, want %+v", by, want)
	}
	if want := (SiteMemory{Resident: 7 * pageBytes, Untouched: 8 * pageBytes}); got.Sites[0] != want {
		t.Errorf("got %+v, want %+v", got.Sites[0], want)
	}
}

// TestThreadStacks: a stack is a mapping above a guard with a thread's stack
// pointer in it, and stays one while the thread runs.
func TestThreadStacks(t *testing.T) {
	p, dir := fakeProcess(t, []fakeVMA{
		{32, "PPPP", "rw-p", "", -1},
		{40, "-", "---p", "", -1},
		{41, "PPP", "rw-p", "", -1}, // thread 78
		{44, "-", "---p", "", -1},
		{45, "PP", "rw-p", "", -1},    // thread 79, which runs at first
		{60, "PPPPP", "rw-p", "", -1}, // thread 80's: no guard
		{80, "-", "---p", "", -1},
		{81, "P", "rw-p", "", -1},                        // above an inaccessible mapping, but nobody's stack
		{100, strings.Repeat("-", 1024), "---p", "", -1}, // reserved by a runtime
		{1124, "PP", "rw-p", "", -1},                     // its heap, on which thread 81 runs
	})
	threads := func(state map[int]string) {
		if err := os.RemoveAll(filepath.Join(dir, "task")); err != nil {
			t.Fatal(err)
		}
		for tid, text := range state {
			task := filepath.Join(dir, "task", fmt.Sprint(tid))
			if err := os.MkdirAll(task, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(task, "syscall"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(page int) string {
		return fmt.Sprintf("34 0x0 0x0 0x2 0x40 0xf 0x0 %#x 0x400000\n", page*int(pageBytes)+64)
	}
	var r Residency
	for _, step := range []struct {
		threads     map[int]string
		want        report.RSSBy
		wantMissing int
	}{
		{map[int]string{77: at(33), 78: at(43), 79: "running\n", 80: at(60), 81: at(1125)}, report.RSSBy{Stack: 3, AnonMmap: 4 + 2 + 5 + 1 + 2}, 3},
		{map[int]string{77: at(33), 78: "running\n", 79: at(45), 80: at(60)}, report.RSSBy{Stack: 5, AnonMmap: 4 + 5 + 1 + 2}, 1},
		{map[int]string{77: at(33), 79: "running\n"}, report.RSSBy{Stack: 2, AnonMmap: 4 + 3 + 5 + 1 + 2}, 0},
	} {
		threads(step.threads)
		got, err := r.Measure(p, nil, 0, yieldBlocks(nil))
		if err != nil {
			t.Fatal(err)
		}
		if by := pagesOf(got.RSSBy); by != step.want || got.StacksNotFound != step.wantMissing {
			t.Errorf("%v: got %+v, %d without a stack; want %+v, %d", step.threads, by, got.StacksNotFound, step.want, step.wantMissing)
		}
	}
}
