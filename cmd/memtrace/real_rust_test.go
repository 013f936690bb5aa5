//go:build integration && services

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// jemallocState is what testdata/programs/rust_jemalloc.rs says of its heap:
// by its own count, and by jemalloc's statistics.
type jemallocState struct {
	LiveBytes uint64 `json:"live_bytes"`
	LiveCount uint64 `json:"live_count"`
	Regions   uint64 `json:"regions"`
	Allocated uint64 `json:"allocated"`
}

type rustAnswer struct {
	Before      jemallocState `json:"before"`
	After       jemallocState `json:"after"`
	CachedCount uint64        `json:"cached_count"`
	CachedBytes uint64        `json:"cached_bytes"`
}

// workInRust has the program do its next piece of work.
func workInRust(p *spawned) (a rustAnswer) {
	p.t.Helper()
	p.say("go")
	line := p.lineWith(`"final":true`)
	if err := json.Unmarshal([]byte(line), &a); err != nil || a.After.Regions == 0 {
		p.t.Fatalf("parse the answer %q: %v", line, err)
	}
	// What it made to print its answer is freed once it waits for the next line.
	eventually(p.t, "the program waits", func() bool { return stateOf(p.t, strconv.Itoa(p.pid())) == "S" })
	return a
}

// TestRustWithJemalloc compares the live heap of a Rust program, whose allocator
// is the jemalloc that the crate jemalloc-sys links with it, with the program's own
// count, to the byte, and with jemalloc's statistics.
//
// Those are in bytes of its size classes, which lie 16 bytes apart up to 128 and
// at most a quarter apart above (jemalloc(3), size classes).
func TestRustWithJemalloc(t *testing.T) {
	t.Parallel()
	program := exec.Command(testProgram("rust_jemalloc"), "attach")
	program.Env = append(os.Environ(), "_RJEM_MALLOC_CONF=tcache:false") // what is in a thread's cache counts as live there
	p := spawn(t, program)
	p.lineWith("ready ")
	m := startTracing(t, []int{p.pid()}, "--allocator", "jemalloc", "--top", "0")
	check := func(a rustAnswer, r *report.Report) {
		t.Helper()
		h := processOf(t, r, p.pid()).Heap
		bytes, count := a.After.LiveBytes-a.Before.LiveBytes, a.After.LiveCount-a.Before.LiveCount
		regions, allocated := a.After.Regions-a.Before.Regions, a.After.Allocated-a.Before.Allocated
		t.Logf("the program has %d bytes in %d blocks, jemalloc says %d in %d", bytes, count, allocated, regions)
		if h.LiveBytes != bytes || h.LiveCount != count || count != regions {
			t.Errorf("%d bytes live in %d blocks; the program says %d in %d, jemalloc %d blocks", h.LiveBytes, h.LiveCount, bytes, count, regions)
		}
		if low, high := h.LiveBytes, h.LiveBytes+h.LiveBytes/4+15*h.LiveCount; allocated < low || allocated > high {
			t.Errorf("jemalloc says that %d bytes are allocated, which is not from %d to %d", allocated, low, high)
		}
		var cached, cachedBytes uint64
		for i := range r.Sites {
			s := &r.Sites[i]
			if slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return f.Function == "rust_jemalloc::cached" }) {
				cached, cachedBytes = cached+s.LiveCount, cachedBytes+s.LiveBytes
			}
		}
		if cached != a.CachedCount || cachedBytes != a.CachedBytes {
			t.Errorf("rust_jemalloc::cached holds %d bytes in %d blocks, want %d in %d", cachedBytes, cached, a.CachedBytes, a.CachedCount)
		}
	}
	a := workInRust(p)
	r := m.reportAfter()
	eventually(t, "memtrace has what the program made", func() bool { // on a busy machine it may be behind
		ok := processOf(t, r, p.pid()).Heap.LiveBytes == a.After.LiveBytes-a.Before.LiveBytes
		if !ok {
			r = m.report()
		}
		return ok
	})
	check(a, r)
	a = workInRust(p)
	r = m.interrupt()
	check(a, r)
	checkSound(t, r, p.pid())
	if r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 || len(r.Warnings) > 0 {
		t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
	}
	own := func(via string) bool {
		return strings.HasPrefix(via, "jemalloc ") && strings.HasSuffix(via, "/rust_jemalloc")
	}
	if via := processOf(t, r, p.pid()).Allocators; !slices.ContainsFunc(via, own) {
		t.Errorf("allocators %q, want the jemalloc in the program", via)
	}
	p.say("go")
	p.end()
}
