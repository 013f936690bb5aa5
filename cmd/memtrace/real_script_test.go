//go:build integration && services

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// pythonScript fills a heap with large objects (which Python takes from
// malloc) and small ones (from arenas that it maps), asks glibc what is in
// use, and leaves without giving anything back.
const pythonScript = `
import ctypes, json, os, sys

class Mallinfo2(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd",
        "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

libc = ctypes.CDLL("libc.so.6")
libc.mallinfo2.restype = Mallinfo2
kept = []
for i in range(20000):
    kept.append(bytes(600 + i % 3000))
    if i % 3 == 0:
        kept[i // 2] = None
table = {str(i): [i] * (i % 50) for i in range(20000)}
big = [bytearray(200000 + i) for i in range(20)]
info = libc.mallinfo2()
used, mappings = info.uordblks + info.hblkhd, info.hblks
os.write(1, json.dumps({"used": used, "mappings": mappings}).encode() + b"\n")
os._exit(0)
`

// TestPython compares the live heap of an interpreter, from its first
// instruction to its end, with what glibc says is in use then.
func TestPython(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "heap.py")
	if err := os.WriteFile(script, []byte(pythonScript), 0o644); err != nil {
		t.Fatal(err)
	}
	r, out := runTraced(t, withoutTcache, need(t, "python3"), "-I", script)
	var said struct{ Used, Mappings uint64 }
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("parse %q: %v", out, err)
	}
	if said.Mappings == 0 || said.Used < 20<<20 {
		t.Fatalf("the script has %d mappings and %d bytes in use, too few to compare", said.Mappings, said.Used)
	}
	checkGlibcUse(t, r.Processes[0].Heap, said.Used, said.Mappings)
}

// sqliteUsed asks SQLite what it has in use (sqlite3_memory_used).
func sqliteUsed(p *spawned) uint64 {
	p.t.Helper()
	p.say(".stats")
	match := regexp.MustCompile(`Memory Used: +(\d+) `).FindStringSubmatch(p.lineWith("Memory Used:"))
	if match == nil {
		p.t.Fatal("SQLite does not say how much memory it uses")
	}
	n, err := strconv.ParseUint(match[1], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// TestSQLite compares the growth of an in-memory database's live heap with
// the growth of sqlite3_memory_used.
//
// SQLite counts a block either by its usable size in glibc, 0 to 24 bytes
// more than was asked for (see checkGlibcUse), or by its size rounded up to 8,
// and asks for 8 bytes more to remember it (src/mem1.c). What it freed of the
// time before the attach counts against its figure only: at most what it used
// then.
func TestSQLite(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command(need(t, "sqlite3"), "-batch", ":memory:"))
	insert := func(from, to int) {
		p.say(fmt.Sprintf("with recursive n(i) as (select %d union all select i + 1 from n where i < %d)"+
			" insert into t select i, hex(randomblob(20 + i %% 400)) from n;", from, to))
		p.say("select 'rows ' || count(*) from t;")
		if got, want := p.lineWith("rows "), fmt.Sprintf("rows %d", to); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	p.say("create table t(i integer primary key, b text); create index t_b on t(b);")
	insert(1, 100)
	began := sqliteUsed(p)
	m := startTracing(t, []int{p.pid()}, "-d", "600s")
	insert(101, 30000)
	growth := int64(sqliteUsed(p) - began)
	r := m.interrupt() // alone of all Reports it is sure to have all events
	heap := processOf(t, r, p.pid()).Heap
	checkSound(t, r, p.pid())
	live, blocks := int64(heap.LiveBytes), int64(heap.LiveCount)
	t.Logf("SQLite says %d bytes more; %d more are live in %d blocks", growth, live, blocks)
	if growth < 10<<20 {
		t.Fatalf("the database grew by %d bytes only", growth)
	}
	if low, high := live-8*blocks-int64(began), live+24*blocks; growth < low || growth > high {
		t.Errorf("memory_used grew by %d, which is not from %d to %d", growth, low, high)
	}
	insert(30001, 30100)
	p.end()
	if said := p.errors.String(); said != "" {
		t.Errorf("sqlite3 complains: %s", said)
	}
}
