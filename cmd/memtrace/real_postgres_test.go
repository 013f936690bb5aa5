//go:build integration && services

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// cluster is a PostgreSQL of its own, reached by a socket in dir. It runs as
// the user postgres, as it refuses to run as root.
type cluster struct {
	t      *testing.T
	dir    string
	server *spawned
}

// asPostgres is a command that runs as the user postgres.
func asPostgres(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		t.Fatalf("the user postgres is %s:%s", u.Uid, u.Gid)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// postgresProgram finds a program of the newest version that is installed.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		t.Fatalf("PostgreSQL's %s is not installed; .ci/setup test installs all that the tests need", name)
	}
	return found[len(found)-1]
}

// newCluster is the directory of a new cluster, to be copied.
func newCluster(t *testing.T) string {
	t.Helper()
	clusterMade.Do(func() {
		dir, err := os.MkdirTemp("", "memtrace-initdb-")
		if err != nil {
			t.Fatal(err)
		}
		madeOnce = append(madeOnce, dir)
		giveToPostgres(t, dir)
		data := filepath.Join(dir, "data")
		initdb := asPostgres(t, postgresProgram(t, "initdb"), "-D", data, "-A", "trust", "--no-sync")
		if out, err := initdb.CombinedOutput(); err != nil {
			t.Fatalf("initdb: %v\n%s", err, out)
		}
		clusterData = data
	})
	if clusterData == "" {
		t.Fatal("initdb failed in another test")
	}
	return clusterData
}

var (
	clusterMade sync.Once
	clusterData string
)

func giveToPostgres(t *testing.T, dir string) {
	t.Helper()
	owner := asPostgres(t, "true").SysProcAttr.Credential
	if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	// Not in t.TempDir: that one's parent is for root only.
	dir, err := os.MkdirTemp("", "memtrace-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cluster{t: t, dir: dir}
	if out, err := exec.Command("cp", "-a", newCluster(t), filepath.Join(dir, "data")).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	giveToPostgres(t, dir)
	c.server = spawn(t, asPostgres(t, postgresProgram(t, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB"))
	eventually(t, "PostgreSQL accepts connections", func() bool {
		return strings.Contains(c.server.errors.String(), "ready to accept connections") // the C locale's words
	})
	return c
}

// session is a psql that stays connected, so that its backend can be traced.
func (c *cluster) session() *spawned {
	c.t.Helper()
	return spawn(c.t, asPostgres(c.t, postgresProgram(c.t, "psql"), "-h", c.dir, "-d", "postgres", "-XqAt", "-v", "ON_ERROR_STOP=1"))
}

// number runs a query that returns one number.
func number(p *spawned, query string) uint64 {
	p.t.Helper()
	p.say("select 'answer ' || (" + query + ");")
	n, err := strconv.ParseUint(strings.TrimPrefix(p.lineWith("answer "), "answer "), 10, 64)
	if err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// pgbenchBackend waits until pgbench's two clients are at work, and returns a backend
// of theirs. Before them pgbench has a connection that only looks at the tables.
func pgbenchBackend(t *testing.T, ask *spawned) int {
	t.Helper()
	const backends = "from pg_stat_activity where application_name = 'pgbench' and query ~ '^(BEGIN|UPDATE|SELECT|INSERT|END)'"
	eventually(t, "pgbench has its backends", func() bool { return number(ask, "select count(*) "+backends) == 2 })
	return int(number(ask, "select min(pid) "+backends))
}

// atWork has a session write to pgbench's tables until it is told to stop, and returns its backend.
func (c *cluster) atWork() (backend int, stop func()) {
	c.t.Helper()
	p := c.session()
	backend = int(number(p, "select pg_backend_pid()"))
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; ; i = i%10 + 1 {
			select {
			case <-over:
				return
			default:
			}
			work := fmt.Sprintf("begin; update pgbench_tellers set tbalance = tbalance + 1 where tid = %d;"+
				" insert into pgbench_history (tid, bid, aid, delta) values (%[1]d, 1, 1, 1); end;\n", i)
			if _, err := io.WriteString(p.stdin, work); err != nil {
				c.t.Errorf("a session at work: %v", err)
				return
			}
		}
	}()
	return backend, func() {
		close(over)
		<-done
		p.end()
	}
}

// TestPostgres traces the postmaster and a backend that is at work for as long as that takes.
func TestPostgres(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	pgbench := postgresProgram(t, "pgbench")
	run := func(args ...string) {
		t.Helper()
		if out, err := asPostgres(t, append([]string{pgbench, "-h", c.dir, "-n"}, append(args, "postgres")...)...).CombinedOutput(); err != nil {
			t.Errorf("pgbench: %v\n%s", err, out)
		}
	}
	run("-i", "-q", "-s", "1")
	ask := c.session()
	backend, stop := c.atWork()
	m := startTracing(t, []int{c.server.pid(), backend})
	connect := c.session() // makes the postmaster fork, under trace
	number(connect, "select 1")
	for processOf(t, m.report(), backend).Heap.FreeCount < 100 {
	}
	r := m.interrupt()
	checkSound(t, r, c.server.pid(), backend)
	if h := processOf(t, r, backend).Heap; h.AllocCount == 0 {
		t.Error("no allocation of the backend was seen")
	}
	stop()
	run("-c", "2", "-t", "10")
	for _, p := range []*spawned{connect, ask} {
		if n := number(p, "select 1"); n != 1 {
			t.Errorf("after the trace 1 is %d", n)
		}
		p.end()
	}
	c.server.signal(unix.SIGTERM) // it ends once its last session has
	c.server.end()
	checkLog(t, "PostgreSQL", c.server.errors.String())
}

// TestPostgresContexts compares the growth of a backend's live heap with that
// of its memory contexts.
//
// Each context is made of blocks that are malloc'ed as they are
// (src/backend/utils/mmgr/aset.c); total_bytes are their sizes. What differs:
// contexts that were reset keep a block for the next one of their kind, at
// most 100 of 8 KiB in each of two lists.
func TestPostgresContexts(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	p := c.session()
	backend := int(number(p, "select pg_backend_pid()"))
	const total = "select sum(total_bytes) from pg_backend_memory_contexts"
	prepare := func(from, to int) {
		p.say("select format('prepare p%s as select count(*) from pg_class a join pg_attribute b on a.oid = b.attrelid where a.relname <> %L and b.attnum > %s', i, i, i)" +
			" from generate_series(" + strconv.Itoa(from) + ", " + strconv.Itoa(to) + ") i \\gexec")
		number(p, "select 1")
	}
	prepare(1, 100) // caches of the catalogue are filled before the comparison
	used := number(p, total)
	m := startTracing(t, []int{backend}, "-d", "600s")
	prepare(101, 2000)
	grew := number(p, total) - used
	r := m.interrupt() // alone of all Reports it is sure to have all events
	live := processOf(t, r, backend).Heap.LiveBytes
	checkSound(t, r, backend)
	const slack = 2 * 100 * 8192
	t.Logf("PostgreSQL says %d bytes more; %d are live", grew, live)
	if grew < 4*slack {
		t.Fatalf("the backend grew by %d bytes only", grew)
	}
	if diff := int64(live) - int64(grew); max(diff, -diff) > slack {
		t.Errorf("the contexts grew by %d bytes, the live heap by %d: more than %d apart", grew, live, slack)
	}
	p.end()
	c.server.signal(unix.SIGTERM)
	c.server.end()
	checkLog(t, "PostgreSQL", c.server.errors.String())
}
