//go:build integration

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/anchor/keeper"
)

// siteSum adds up the sites of a function.
func siteSum(r *report.Report, pid int, function string) (sum report.Site) {
	for i := range r.Sites {
		s := &r.Sites[i]
		if s.PID != pid || s.Function != function {
			continue
		}
		sum.AllocCount += s.AllocCount
		sum.AllocBytes += s.AllocBytes
		sum.FreeCount += s.FreeCount
		sum.LiveCount += s.LiveCount
		sum.LiveBytes += s.LiveBytes
	}
	return sum
}

// checkSites compares every site with what the program counted. A successful
// realloc that returns a block is an allocation to a site.
func checkSites(t *testing.T, r *report.Report, pid int, a answer) {
	t.Helper()
	for _, want := range a.Sites {
		got := siteSum(r, pid, want.Function)
		count := want.Alloc + want.Realloc - want.ReallocFreed
		bytes := want.AllocBytes + want.ReallocBytes
		if got.AllocCount != count || got.AllocBytes != bytes || got.LiveCount != want.LiveCount || got.LiveBytes != want.LiveBytes {
			t.Errorf("%s: got %d allocations of %d bytes, %d of %d live; the program says %d of %d, %d of %d",
				want.Function, got.AllocCount, got.AllocBytes, got.LiveCount, got.LiveBytes,
				count, bytes, want.LiveCount, want.LiveBytes)
		}
	}
	if r.Events.Failed != a.Total.Failed {
		t.Errorf("%d failed allocations, the program says %d", r.Events.Failed, a.Total.Failed)
	}
	if r.Events.Lost != 0 {
		t.Errorf("%d events lost: %+v", r.Events.Lost, r.Events.LostBy)
	}
}

// patchedBytes counts the bytes of a process's C library code that differ
// from the file: the breakpoints in it.
func patchedBytes(t *testing.T, pid int) (n int) {
	t.Helper()
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	found := false
	err = p.Maps(func(v *procfs.VMA) {
		if v.Perms&procfs.Exec == 0 || !strings.Contains(string(v.Path), "/libc.so") && !strings.Contains(string(v.Path), "/libc-2") {
			return
		}
		found = true
		n += differences(t, mem, v)
	})
	if err != nil || !found {
		t.Fatalf("find the C library's code in process %d: %v", pid, err)
	}
	return n
}

// differences compares one mapping with its file.
func differences(t *testing.T, mem *os.File, v *procfs.VMA) (n int) {
	t.Helper()
	inMemory, inFile := make([]byte, v.End-v.Start), make([]byte, v.End-v.Start)
	if _, err := mem.ReadAt(inMemory, int64(v.Start)); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(string(v.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := file.ReadAt(inFile, int64(v.Offset))
	if got == 0 {
		t.Fatal(err)
	}
	for i := range got { // the last page may reach beyond the file
		if inMemory[i] != inFile[i] {
			n++
		}
	}
	return n
}

// anchorOf finds the process of a memtrace that outlives it.
func anchorOf(t *testing.T, memtrace int) (pid int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", memtrace))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range strings.Fields(string(text)) {
			if name, _ := os.ReadFile("/proc/" + child + "/comm"); string(name) != keeper.Name+"\n" {
				continue
			}
			if pid, err = strconv.Atoi(child); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid == 0 {
		t.Fatalf("memtrace, process %d, has no process %s", memtrace, keeper.Name)
	}
	return pid
}

// TestKilledMemtrace kills memtrace in the middle of a trace: the program
// runs on, with its own code.
func TestKilledMemtrace(t *testing.T) {
	t.Parallel()
	p := startPrivate(t, "churn", "20", "2", "60", "200000")
	if n := patchedBytes(t, p.pid()); n != 0 {
		t.Fatalf("%d bytes of the C library are changed before any trace", n)
	}
	m := startTracing(t, []int{p.pid()})
	if patchedBytes(t, p.pid()) == 0 {
		t.Fatal("no breakpoint to be seen during the trace")
	}
	p.say("go")
	for m.report().Events.Alloc == 0 {
	}
	anchor := anchorOf(t, m.pid())
	m.signal(unix.SIGKILL)
	<-m.exited
	eventually(t, "the breakpoints of a killed memtrace are removed", func() bool {
		select {
		case <-p.exited:
			t.Fatalf("the program has ended with %v, and said: %s", p.err, p.errors)
		default:
		}
		return patchedBytes(t, p.pid()) == 0
	})
	a := parseAnswer(t, p.lineWith(`"final":true`))
	if a.Total.Alloc != 2*200_000 || a.Total.Free != a.Total.Alloc {
		t.Errorf("the program made %d allocations and %d frees of 400000", a.Total.Alloc, a.Total.Free)
	}
	p.end()
	eventually(t, "what outlives memtrace ends, too", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", anchor)) // its next parent may not wait for it
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// TestTwoMemtracesOfTwoThreads has two of them trace one busy program at once.
func TestTwoMemtracesOfTwoThreads(t *testing.T) {
	t.Parallel()
	p := startPrivate(t, "two_threads")
	first, second := startTracing(t, []int{p.pid()}), startTracing(t, []int{p.pid()})
	a := p.proceed()
	for _, m := range []*running{first, second} {
		checkSites(t, m.interrupt(), p.pid(), a)
	}
	if n := patchedBytes(t, p.pid()); n != 0 {
		t.Errorf("%d bytes of breakpoints are left", n)
	}
	p.end()
}

// TestContainersAgainstMallinfo compares the live heap of a C++ program that
// lives in maps and strings with what glibc says is in use.
func TestContainersAgainstMallinfo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cxx_containers", "cxx_containers_nofp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, out := runTraced(t, withoutTcache, testProgram(name), "run")
			a := parseAnswer(t, strings.TrimSpace(out))
			h := r.Processes[0].Heap
			checkGlibcUse(t, h, a.MallinfoUsed, 0)
			// libstdc++ and libc allocate before main too, so only a lower bound is exact.
			if h.AllocCount < a.Total.Alloc || h.LiveBytes < a.Total.LiveBytes {
				t.Errorf("%d allocations, %d bytes live; the program alone made %d, and holds %d", h.AllocCount, h.LiveBytes, a.Total.Alloc, a.Total.LiveBytes)
			}
		})
	}
}

// withoutTcache makes glibc count what is freed as free at once: blocks that
// wait in a thread's cache count as in use in mallinfo2.
var withoutTcache = []string{"GLIBC_TUNABLES=glibc.malloc.tcache_count=0"}

// checkGlibcUse compares a live heap with mallinfo2's uordblks + hblkhd.
//
// A chunk of glibc is its block and 8 bytes, rounded up to 16 and at least 32:
// 8 to 32 bytes more than what was asked for. One of its own mapping takes 16
// bytes, rounded up to pages.
func checkGlibcUse(t *testing.T, h report.Heap, used, mappings uint64) {
	t.Helper()
	low := h.LiveBytes + 8*h.LiveCount
	high := h.LiveBytes + 32*h.LiveCount + mappings*(16+4096)
	t.Logf("%d bytes live in %d blocks; glibc has %d in use", h.LiveBytes, h.LiveCount, used)
	if used < low || used > high {
		t.Errorf("glibc says that %d bytes are in use, which is not from %d to %d, as %d live bytes in %d blocks make",
			used, low, high, h.LiveBytes, h.LiveCount)
	}
}
