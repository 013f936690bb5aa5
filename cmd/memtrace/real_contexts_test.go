//go:build integration && services

package main

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// poolOf picks the pools of a name, zero if there are none.
func poolOf(p *report.Process, name string) (none report.Pool) {
	for _, pool := range p.Pools {
		if pool.Name == name {
			return pool
		}
	}
	return none
}

// TestPostgresLayer compares what a backend's memory contexts hold with
// PostgreSQL's own figures.
//
// used_bytes is more than what palloc was asked for by what
// src/backend/utils/mmgr/aset.c adds: to a block its header, of 16 bytes, and
// what rounds it up to a power of two, which is less than its size; to a
// context its own record and the headers of its few malloc'ed blocks.
func TestPostgresLayer(t *testing.T) {
	t.Parallel()
	const maxHeader, maxContext = 24, 1024
	c := startCluster(t)
	p := c.session()
	backend := int(number(p, "select pg_backend_pid()"))
	used := func(name string) (bytes, contexts uint64) {
		const from = " from pg_backend_memory_contexts where name = '"
		return number(p, "select coalesce(sum(used_bytes), 0)"+from+name+"'"), number(p, "select count(*)"+from+name+"'")
	}
	used("CachedPlanSource") // what its plan needs of the catalogue is in the caches
	m := startTracing(t, []int{backend}, "-d", "600s", "--layer", "postgres", "--top", "10")
	prepare := func(from, to int) {
		for i := from; i < to; i++ {
			p.say(fmt.Sprintf("prepare p%d as select count(*) from pg_class where relname <> 't%d' and relpages > %d;", i, i, i))
			p.say(fmt.Sprintf("execute p%d;", i))
		}
	}
	check := func(name string, want uint64) {
		t.Helper()
		bytes, contexts := used(name)
		got := poolOf(processOf(t, m.reportAfter(), backend), name)
		eventually(t, fmt.Sprintf("memtrace has %d contexts of %s", want, name), func() bool {
			if uint64(got.Pools) != want { // on a busy machine it may be behind
				got = poolOf(processOf(t, m.report(), backend), name)
			}
			return uint64(got.Pools) == want
		})
		t.Logf("%s: PostgreSQL uses %d bytes in %d contexts; %d are live in %d blocks of %d pools", name, bytes, contexts, got.LiveBytes, got.LiveCount, got.Pools)
		if contexts != want || uint64(got.Pools) != want {
			t.Errorf("%s: PostgreSQL has %d contexts, the Report %d, want %d", name, contexts, got.Pools, want)
		}
		least, most := got.LiveBytes+got.LiveCount*8, 2*got.LiveBytes+got.LiveCount*maxHeader+want*maxContext
		if bytes < least || bytes > most {
			t.Errorf("%s: PostgreSQL uses %d bytes; %d bytes in %d blocks take from %d to %d", name, bytes, got.LiveBytes, got.LiveCount, least, most)
		}
	}
	check("CachedPlanSource", 0)
	prepare(0, 200)
	check("CachedPlanSource", 200)
	check("CachedPlanQuery", 200)
	prepare(200, 300)
	p.say("deallocate p7;")
	check("CachedPlanSource", 299)
	check("CachedPlanQuery", 299)
	p.say("deallocate all;")
	check("CachedPlanSource", 0)
	check("CachedPlanQuery", 0)
	r := m.interrupt()
	checkSound(t, r, backend)
	if r.Events.PoolFree == 0 || r.Events.Overwritten != 0 {
		t.Errorf("%d blocks ended with their context, %d were handed out again", r.Events.PoolFree, r.Events.Overwritten)
	}
	p.end()
	c.server.signal(unix.SIGTERM)
	c.server.end()
	checkLog(t, "PostgreSQL", c.server.errors.String())
}
