//go:build integration && services

package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// exported are the functions that a file exports, which are all that a stripped one has names of.
func exported(t *testing.T, path string) map[string]bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]bool)
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			out[s.Name] = true
		}
	}
	return out
}

// checkWho requires that the first rows are called by functions of the files that they lie in, and that
// none of those is of the program's allocator, by the prefixes that its sources give it.
func checkWho(t *testing.T, r *report.Report, wrappers ...string) {
	t.Helper()
	own, seen := make(map[string]map[string]bool), 0
	for i := range r.Sites {
		s := &r.Sites[i]
		if len(s.Stack) == 0 || seen == 10 {
			continue
		}
		seen++
		f := s.Stack[s.FunctionFrame]
		if f.Function != s.Function {
			t.Errorf("site %d is called %s, frame %d is %s", s.ID, s.Function, s.FunctionFrame, f.Function)
		}
		if own[f.Module] == nil {
			own[f.Module] = exported(t, f.Module)
		}
		if !own[f.Module][s.Function] && !f.Nameless() {
			t.Errorf("%d live bytes are called %s, no function that %s exports", s.LiveBytes, s.Function, f.Module)
		}
		for _, w := range wrappers {
			if strings.HasPrefix(s.Function, w) {
				t.Errorf("%d live bytes are called %s, of the allocator", s.LiveBytes, s.Function)
			}
		}
		t.Logf("%9d %s < %s", s.LiveBytes, s.Function, strings.Join(functionsOf(s.Stack[s.FunctionFrame+1:]), " < "))
	}
	if seen < 10 {
		t.Errorf("only %d sites have stacks", seen)
	}
}

// TestWhoAllocatesInRedis: the rows are called by those who ask for memory, not zmalloc.
func TestWhoAllocatesInRedis(t *testing.T) {
	t.Parallel()
	server, socket, _ := startRedis(t)
	m := startTracing(t, []int{server.pid()}, "-d", "600s", "--by", "function")
	load(t, need(t, "redis-benchmark"), "-s", socket, "-q", "-n", "3000", "-c", "10", "-r", "2000", "-d", "100", "-t", "set,lpush,sadd,hset,zadd")
	r := m.interrupt()
	checkWho(t, r, "zmalloc", "zcalloc", "zrealloc", "ztry", "je_")
	// Who makes the strings, the sorted set's nodes and the sets' entries, by redis's sources.
	for _, function := range []string{"_sdsnewlen", "zslInsert", "dictAddRaw"} {
		if g := groupOf(r, function); g == nil || g.LiveBytes == 0 {
			t.Errorf("no group is called %s", function)
		}
	}
	var groups, sites uint64
	for i := range r.Groups {
		groups += r.Groups[i].LiveBytes
	}
	for i := range r.Sites {
		sites += r.Sites[i].LiveBytes
	}
	if live := processOf(t, r, server.pid()).Heap.LiveBytes; groups != sites || groups != live {
		t.Errorf("groups add up to %d, sites to %d, the heap has %d", groups, sites, live)
	}
}

func groupOf(r *report.Report, key string) *report.Group {
	for i := range r.Groups {
		if r.Groups[i].Key == key {
			return &r.Groups[i]
		}
	}
	return nil
}

// TestWhoAllocatesInNginx traces it from its start: what it keeps is its configuration.
func TestWhoAllocatesInNginx(t *testing.T) {
	t.Parallel()
	program, dir := need(t, "nginx"), t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, freePort(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	r, _ := runTraced(t, nil, program, "-t", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", config)
	slices.SortFunc(r.Sites, func(x, y report.Site) int { return cmp.Compare(y.PeakLiveBytes, x.PeakLiveBytes) }) // it frees all
	checkWho(t, r, "ngx_alloc", "ngx_calloc", "ngx_palloc", "ngx_pcalloc", "ngx_pnalloc", "ngx_create_pool", "ngx_memalign")
}

// TestWhoAllocatesInPostgres traces a backend that plans queries.
func TestWhoAllocatesInPostgres(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	p := c.session()
	backend := int(number(p, "select pg_backend_pid()"))
	m := startTracing(t, []int{backend}, "-d", "600s")
	for i := range 50 {
		p.say(fmt.Sprintf("prepare p%d as select count(*) from pg_class a join pg_attribute b on a.oid = b.attrelid where b.attnum > %d;", i, i))
	}
	number(p, "select 1")
	checkWho(t, m.interrupt(), "palloc", "MemoryContextAlloc", "AllocSet", "Generation", "Slab", "repalloc", "pstrdup")
	p.end()
}

func functionsOf(stack []*report.Frame) (out []string) {
	for _, f := range stack[:min(len(stack), 3)] {
		out = append(out, f.Function)
	}
	return out
}
