package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/memtrace/memtrace/testdata/bench/workload"
)

// A program is what is measured, and what it has to do.
type program struct {
	name, title, what string
	// prepare makes ready in a directory what all turns need; what it returns
	// is called for each turn with a directory of its own, and says the command.
	prepare func(shared string) (func(dir string) ([]string, error), error)
	input   func(dir string) (*os.File, error) // stdin
	// load drives a service, which end then ends.
	load    func(dir string) (answer, error)
	end     syscall.Signal
	unit    string   // what load's rate counts
	without []string // variants that it does not have
	note    string
}

// Most programs have few sites, and heaptrack's usual mode does for them.
var (
	usual   = []string{allName, rawName}
	noForks = []string{allName, rawName, heaptrackName} // heaptrack does not follow children
)

func programs() []program {
	return []program{
		{name: "compiler", title: "A compiler", what: "`cc1plus -O2` of GCC on one file with regex, maps and iostreams of libstdc++, preprocessed", prepare: compiler(workload.Compiler),
			without: []string{allName, heaptrackName},
			note:    "heaptrack's program that looks up names dies of this one (1.4.0: `std::bad_alloc`, after its memory has grown without end). `heaptrack --raw` leaves them to later, and so does less than is compared with it."},
		{name: "compiler-clang", title: "clang", what: "`clang++-19 -O2 -c` on the same file, preprocessed: deeper stacks, larger frames", prepare: compiler(workload.Clang), without: []string{allName}},
		{name: "compiler-small", title: "A compiler on a smaller file", what: "`cc1plus -O2` of GCC on one file with containers and streams of libstdc++, preprocessed", prepare: compiler(workload.SmallCompiler)},
		{name: "redis", title: "redis-server", what: fmt.Sprintf("`redis-benchmark` with 50 connections, %d each of set, get, lpush and hset; Debian's is linked with jemalloc", redisRequests),
			prepare: each(workload.RedisServer), load: redisLoad, end: syscall.SIGTERM, unit: "requests", without: usual},
		{name: "postgres-select", title: "PostgreSQL, select-only", what: fmt.Sprintf("`pgbench -S` with 2 connections, %d transactions each", selectTransactions),
			prepare: postgres, load: pgbench("-S", "-t", fmt.Sprint(selectTransactions)), end: syscall.SIGINT, unit: "transactions", without: noForks},
		{name: "postgres-tpcb", title: "PostgreSQL, TPC-B-like", what: fmt.Sprintf("`pgbench` with its default script and 2 connections, %d transactions each, fsync off", tpcbTransactions),
			prepare: postgres, load: pgbench("-t", fmt.Sprint(tpcbTransactions)), end: syscall.SIGINT, unit: "transactions", without: noForks},
		{name: "python", title: "python3", what: "JSON, dictionaries, lists, strings and objects, made and dropped; Python's own allocator over malloc, as by default", prepare: python, without: usual},
		{name: "sqlite", title: "sqlite3", what: "A script on a database in memory: inserts, an index, joins, sorts", prepare: each(workload.SQLite), input: sqliteInput, without: usual},
		{name: "git", title: "git", what: fmt.Sprintf("`git log --stat` of %d commits to %d files", commits, files), prepare: repository, without: usual},
	}
}

func names() (list []string) {
	for _, p := range programs() {
		list = append(list, p.name)
	}
	return list
}

func programNamed(name string) (*program, error) {
	for _, p := range programs() {
		if p.name == name {
			return &p, nil
		}
	}
	return nil, fmt.Errorf("no program %q; there are %s", name, strings.Join(names(), ", "))
}

// each is prepare of what each turn makes anew.
func each(command func(dir string) ([]string, error)) func(string) (func(string) ([]string, error), error) {
	return func(string) (func(string) ([]string, error), error) { return command, nil }
}

// always is the same command in each turn.
func always(argv ...string) func(string) ([]string, error) {
	return func(string) ([]string, error) { return argv, nil }
}

// compiler compiles a source that is preprocessed once.
func compiler(command func(string) ([]string, error)) func(string) (func(string) ([]string, error), error) {
	return func(shared string) (func(string) ([]string, error), error) {
		argv, err := command(shared)
		return always(argv...), err
	}
}

// sqliteTimes is how often sqlite3's script goes through.
const sqliteTimes = 30

func sqliteInput(dir string) (*os.File, error) { return workload.SQLiteInput(dir, sqliteTimes) }

const pythonScript = `
import json, random
random.seed(7)
words = ["".join(random.choices("abcdefghijklmnop", k=random.randrange(3, 40))) for _ in range(4000)]

class Node:
    __slots__ = ("left", "right", "value")
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

def tree(depth):
    return Node(depth, tree(depth - 1), tree(depth - 1)) if depth else Node(0)

for i in range(60):
    document = {w: {"n": j, "tags": words[j % 97:j % 97 + 8], "text": w * (1 + j % 60), "list": list(range(j % 120))}
                for j, w in enumerate(words[:1200])}
    json.loads(json.dumps(document))
    seen = {}
    for j in range(30000):
        seen.setdefault(words[j * 7919 % len(words)], []).append((i, j))
    ordered = sorted(seen.items(), key=lambda item: (len(item[1]), item[0]))
    text = " ".join(w for w, _ in ordered)
    parts = [p.upper() + "-" + p for p in text.split()]
    rows = [[str(a * b) for b in range(60)] for a in range(60)]
    tree(11)
    table = bytearray().join(p.encode() * 30 for p in parts)
`

func python(shared string) (func(string) ([]string, error), error) {
	path, err := workload.Write(shared, "load.py", pythonScript)
	return always("/usr/bin/python3", path), err
}

// The repository: each commit changes so many of its files in so many places.
const (
	commits = 8000
	files   = 400
	changed = 4
	places  = 3
	lines   = 250
)

// repository makes one by git fast-import, always the same.
func repository(shared string) (func(string) ([]string, error), error) {
	git := func(args ...string) []string { return append([]string{"git", "-C", shared, "--no-pager"}, args...) }
	init := git("init", "-q", "--bare", ".")
	if err := workload.Run(init[0], init[1:]...); err != nil {
		return nil, err
	}
	stream, err := os.Create(filepath.Join(shared, "stream"))
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	if err := writeHistory(stream); err != nil {
		return nil, err
	}
	if _, err := stream.Seek(0, 0); err != nil {
		return nil, err
	}
	argv := git("fast-import", "--quiet")
	load := exec.Command(argv[0], argv[1:]...)
	load.Stdin = stream
	if out, err := load.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("git fast-import: %w: %s", err, out)
	}
	repack := git("-c", "pack.threads=1", "repack", "-adfq")
	return always(git("log", "--stat", "main")...), workload.Run(repack[0], repack[1:]...)
}

// writeHistory writes what git fast-import reads (git-fast-import(1)).
func writeHistory(to *os.File) error {
	w := bufio.NewWriterSize(to, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	line := func() string { return fmt.Sprintf("line %x of %x\n", random.Uint64(), random.Uint32()) }
	texts := make([][]string, files)
	for c := range commits {
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata <<END\ncommit %d\nEND\n", 1e9+c*60, c)
		for range changed {
			f := random.IntN(files)
			if texts[f] == nil {
				for range lines {
					texts[f] = append(texts[f], line())
				}
			}
			for range places {
				texts[f][random.IntN(lines)] = line()
			}
			text := strings.Join(texts[f], "")
			fmt.Fprintf(w, "M 100644 inline part%d/file%d.txt\ndata %d\n%s\n", f%20, f, len(text), text)
		}
	}
	return w.Flush()
}
