package heapwalk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// TestJudge: of a program that waits, every block that it has is allocated and none that it freed is, whatever
// keeps it: one look tells, and says that nothing ran.
func TestJudge(t *testing.T) {
	program := buildTruth(t)
	for name, tunables := range map[string]string{
		"default": "", "no_tcache": "glibc.malloc.tcache_count=0", "no_mmap": "glibc.malloc.mmap_max=0", "all_mmap": "glibc.malloc.mmap_threshold=4096",
	} {
		t.Run(name, func(t *testing.T) {
			c := startTruth(t, program, []string{"GLIBC_TUNABLES=" + tunables})
			c.judge(t)
		})
	}
}

// judge asks about all blocks of a program that waits, or is about to.
func (c *truth) judge(t *testing.T) {
	t.Helper()
	var claims []Claim
	for addr, size := range c.blocks {
		claims = append(claims, Claim{Addr: addr, Size: size})
	}
	for addr := range c.freed {
		if _, again := c.blocks[addr]; !again {
			claims = append(claims, Claim{Addr: addr, Size: 100})
		}
	}
	var judged Judged
	for !judged.Still {
		var err error
		if judged, err = Judge(c.process, Options{}, claims); err != nil {
			t.Fatal(err)
		}
	}
	if judged.Walks != 1 {
		t.Errorf("%+v of a program that waits", judged)
	}
	again := 0 // given to the C library meanwhile, which has a block for each of the three threads
	for _, claim := range claims {
		want := Freed
		if _, live := c.blocks[claim.Addr]; live {
			want = Allocated
		}
		if claim.State == want {
			continue
		}
		if again++; want != Freed || again > 3 {
			t.Errorf("block %#x of %d bytes: %d, want %d", claim.Addr, claim.Size, claim.State, want)
		}
	}
}

// TestJudgeWhileBlocksArePassedAround: threads free each other's blocks and have others in their place, which look
// like nodes of a list. Blocks that are never freed meanwhile are never called free.
func TestJudgeWhileBlocksArePassedAround(t *testing.T) {
	p, kept := startPassing(t)
	const looks = 40
	told := make(map[uint64]bool) // at some look to live: a Judge that knows nothing is never wrong
	for range looks {
		claims := make([]Claim, 0, len(kept))
		for _, addr := range kept {
			claims = append(claims, Claim{Addr: addr, Size: keptBytes})
		}
		judged, err := Judge(p, Options{}, claims)
		if err != nil {
			t.Fatal(err)
		}
		allocated := 0
		for _, c := range claims {
			switch c.State {
			case Freed:
				t.Fatalf("block %#x lives, and is called free: %+v", c.Addr, judged)
			case Allocated:
				told[c.Addr] = true
				allocated++
			}
		}
		if judged.Still {
			t.Errorf("nothing ran, it is said of four threads that run: %+v", judged)
		}
		t.Logf("%d of %d are known to live, in %v", allocated, len(claims), judged.Took)
	}
	if len(told) != len(kept) {
		t.Errorf("of %d of %d blocks no look could tell that they live", len(kept)-len(told), len(kept))
	}
}

// TestBlocksThatCouldNotBeReadAreNotFree: of a block with a mapping of its own, memory that is there and can't be read
// tells nothing, and where the budget is spent nothing is told at all.
func TestBlocksThatCouldNotBeReadAreNotFree(t *testing.T) {
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	self, err := fs.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	mem, err := unix.Mmap(-1, 0, int(2*pageBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	base := uint64(uintptr(unsafe.Pointer(&mem[0])))
	binary.LittleEndian.PutUint64(mem[8:], pageBytes|isMapped)
	if err := unix.Mprotect(mem[pageBytes:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	m, err := openMemory(self, self.PID(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	const nothing = 0x1000 // is mapped there
	var claims []Claim
	for _, chunk := range []uint64{nothing, base, base + pageBytes} {
		claims = append(claims, Claim{Addr: chunk + headBytes, Size: 100})
	}
	judge := func() (states []State, err error) {
		v := &judgement{heap: &Heap{}, m: m}
		err = v.all(claims, func(_ *Claim, v verdict) { states = append(states, v.state) })
		return states, err
	}
	if states, err := judge(); err != nil || !slices.Equal(states, []State{Freed, Allocated, Unknown}) {
		t.Errorf("%v, %v: want what is gone freed, what is there allocated, what can't be read unknown", states, err)
	}
	m.budget.calls = 0
	states, err := judge()
	if !errors.Is(err, ErrTooMuch) || slices.Contains(states[1:], Freed) {
		t.Errorf("with no budget left: %v, %v", states, err)
	}
}

// likenessProgram has two blocks that look like a thread's table of lists: what hangs from them was freed.
// Their counts say nothing.
const likenessProgram = `
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	void **of41 = calloc(1, 0x280), **of42 = calloc(1, 0x2f0);
	for (int i = 0; i < 6; i++) {
		void *a = malloc(24 + 16 * i), *b = malloc(24 + 16 * i);
		of41[16 + i] = a;
		of42[19 + i] = b;
		free(a), free(b);
	}
	printf("%p %p\n", of41, of42);
	fflush(stdout);
	pause();
}
`

// TestJudgeLikenessesOfTables: a block of the program's that points to freed blocks of the right sizes is none
// of the allocator's.
func TestJudgeLikenessesOfTables(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "likeness.c"), filepath.Join(dir, "likeness")
	if err := os.WriteFile(source, []byte(likenessProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	compile(t, "gcc", "-O0", "-fno-builtin", "-o", program, source)
	p, blocks := startTwoBlocks(t, program)
	claims := []Claim{{Addr: blocks[0], Size: 0x280}, {Addr: blocks[1], Size: 0x2f0}}
	if _, err := Judge(p, Options{}, claims); err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if c.State != Allocated {
			t.Errorf("block %#x lives: %d", c.Addr, c.State)
		}
	}
}

// keptBytes is the size of the blocks that passed_around keeps, as it says.
const keptBytes = 24

// startPassing starts passed_around and returns the blocks that it keeps.
func startPassing(t *testing.T) (p *procfs.Process, kept []uint64) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "passed_around")
	compile(t, "gcc", "-O1", "-fno-builtin", "-pthread", "-o", program, programs+"/passed_around.c")
	cmd := exec.Command(program, "attach", "2000", "4", "1000", "0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		t.Fatal("the program said nothing")
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() {
		t.Fatal("the program did not answer")
	}
	_, list, _ := strings.Cut(lines.Text(), `"kept":[`)
	list, _, _ = strings.Cut(list, "]")
	for word := range strings.SplitSeq(list, ",") {
		kept = append(kept, parseAddress(t, word))
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = fs.Process(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, kept
}

func parseAddress(t *testing.T, word string) uint64 {
	t.Helper()
	addr, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		t.Fatalf("the program said %q: %v", word, err)
	}
	return addr
}

// fastbinProgram frees more blocks than its thread keeps, prints the last two, and runs for ever.
const fastbinProgram = `
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	static void *blocks[40], *between[40];
	static char said[100];
	for (int i = 0; i < 40; i++)
		blocks[i] = malloc(40), between[i] = malloc(40);
	for (int i = 0; i < 40; i++)
		free(blocks[i]);
	int n = snprintf(said, sizeof said, "%p %p\n", blocks[38], blocks[39]);
	if (write(1, said, n) != n)
		return 1;
	for (;;)
		__asm__ volatile("");
}
`

// TestJudgeFastbinsWhileTheProgramRuns: links that no program writes are proof enough.
func TestJudgeFastbinsWhileTheProgramRuns(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "fastbin.c"), filepath.Join(dir, "fastbin")
	if err := os.WriteFile(source, []byte(fastbinProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	compile(t, "gcc", "-O0", "-fno-builtin", "-o", program, source)
	p, blocks := startTwoBlocks(t, program)
	claims := []Claim{{Addr: blocks[0], Size: 40}, {Addr: blocks[1], Size: 40}}
	judged, err := Judge(p, Options{}, claims)
	if err != nil || judged.Still {
		t.Fatalf("%+v, %v", judged, err)
	}
	for _, c := range claims {
		if c.State != Freed {
			t.Errorf("block %#x was freed: %d", c.Addr, c.State)
		}
	}
}
