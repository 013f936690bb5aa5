package heapwalk

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs"
)

const programs = "../../testdata/programs"

// truth is what the program heap_truth says of its own heap.
type truth struct {
	process  *procfs.Process
	blocks   map[uint64]uint64 // usable size by address
	lost     map[uint64]bool
	freed    map[uint64]bool
	chance   map[uint64]bool // blocks that look like the allocator's own
	inUse    uint64
	mappings Sum // whole mappings
}

// compile builds a test program.
func compile(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func buildTruth(t testing.TB, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "heap_truth")
	compile(t, "gcc", append([]string{"-O1", "-g", "-fno-builtin", "-pthread", "-o", program, programs + "/heap_truth.c"}, flags...)...)
	return program
}

// startTruth starts the program and reads what it says.
func startTruth(t testing.TB, program string, env []string, args ...string) *truth {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
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
	c := &truth{
		blocks: make(map[uint64]uint64), lost: make(map[uint64]bool), freed: make(map[uint64]bool), chance: make(map[uint64]bool),
	}
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			t.Fatal("the program ended before it was ready")
		}
		if lines.Text() == "ready" {
			break
		}
		c.take(t, lines.Text())
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	if c.process, err = fs.Process(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.process.Close() })
	return c
}

func (c *truth) take(t testing.TB, line string) {
	t.Helper()
	var addr, size uint64
	var word string
	if _, err := fmt.Sscanf(line, "block 0x%x %d %s", &addr, &size, &word); err == nil {
		c.blocks[addr] = size
		c.lost[addr], c.chance[addr] = word == "lost", word == "chance"
		return
	}
	if _, err := fmt.Sscanf(line, "freed 0x%x", &addr); err == nil {
		c.freed[addr] = true
		return
	}
	if _, err := fmt.Sscanf(line, "inuse %d mappings %d %d", &c.inUse, &c.mappings.Count, &c.mappings.Bytes); err != nil {
		t.Fatalf("the program said %q", line)
	}
}

// check compares a walk with what the program and its allocator say.
func (c *truth) check(t *testing.T, h *Heap) {
	t.Helper()
	if h.InUse != c.inUse {
		t.Errorf("%d bytes are in use, mallinfo says %d (%d off)", h.InUse, c.inUse, int64(h.InUse-c.inUse))
	}
	if h.Mapped.Count != c.mappings.Count || h.Unfound.Count != 0 {
		t.Errorf("%d blocks have a mapping of their own (%d were not found), mallinfo says %d", h.Mapped.Count, h.Unfound.Count, c.mappings.Count)
	}
	c.checkBlocks(t, h, 0)
}

// checkBlocks compares the blocks; so many may be missing.
func (c *truth) checkBlocks(t *testing.T, h *Heap, missing int) {
	t.Helper()
	found := make(map[uint64]uint64)
	var last uint64
	again := 0 // given to the C library meanwhile, which has a block for each of the three threads
	for b := range h.All {
		if b.Addr <= last {
			t.Errorf("block %#x comes after %#x", b.Addr, last)
		}
		last = b.Addr
		found[b.Addr] = b.Size()
		if !c.freed[b.Addr] {
			continue
		}
		if again++; again > 3 {
			t.Errorf("block %#x of %d bytes is live, but was freed", b.Addr, b.Size())
		}
	}
	for addr, size := range c.blocks {
		if found[addr] == size {
			continue
		}
		if missing--; missing < 0 {
			t.Errorf("block %#x has %d bytes, want %d", addr, found[addr], size)
		}
	}
	// The rest is the C library's own: of each thread its vector of TLS blocks, …
	if more := len(found) - len(c.blocks); more > 16 {
		t.Errorf("%d live blocks are none of the program's", more)
	}
	if h.Unlisted != 0 {
		t.Errorf("lists of %d arenas could not be followed", h.Unlisted)
	}
	t.Logf("%d arenas, %+v live, %+v cached, %d free, %d covered, %d skipped, in %v", h.Arenas, h.Live, h.Cached, h.Free, h.Covered, h.Skipped, h.Took)
}

func walk(t *testing.T, c *truth) *Heap {
	t.Helper()
	h, err := Walk(c.process, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestTruth walks the heap of a program that knows what is in it, under
// settings that change how glibc keeps it.
func TestTruth(t *testing.T) {
	program := buildTruth(t)
	for name, tunables := range map[string]string{
		"default":    "",
		"no_tcache":  "glibc.malloc.tcache_count=0",
		"big_tcache": "glibc.malloc.tcache_count=100",
		"no_mmap":    "glibc.malloc.mmap_max=0",
		"one_arena":  "glibc.malloc.arena_max=1",
		"all_mmap":   "glibc.malloc.mmap_threshold=4096",
	} {
		t.Run(name, func(t *testing.T) {
			c := startTruth(t, program, []string{"GLIBC_TUNABLES=" + tunables})
			h := walk(t, c)
			c.check(t, h)
			if h.Skipped != 0 {
				t.Errorf("%d bytes of the heap were not gone through", h.Skipped)
			}
		})
	}
}

// TestForeignBrk: what somebody else put into the heap is passed over.
func TestForeignBrk(t *testing.T) {
	c := startTruth(t, buildTruth(t), nil, "sbrk")
	h := walk(t, c)
	if h.Skipped < 10000 || h.Skipped > 12000 {
		t.Errorf("%d bytes were passed over, want the 10000 that are not malloc's", h.Skipped)
	}
	c.checkBlocks(t, h, 1)
}

// TestStatic walks the heap of static programs, with symbols and without.
func TestStatic(t *testing.T) {
	for name, flags := range map[string][]string{"static": {"-static"}, "static_pie": {"-static-pie", "-fPIE"}, "stripped": {"-static", "-s"}} {
		t.Run(name, func(t *testing.T) {
			c := startTruth(t, buildTruth(t, flags...), nil)
			c.check(t, walk(t, c))
		})
	}
}
