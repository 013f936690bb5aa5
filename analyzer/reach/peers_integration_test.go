//go:build integration

package reach

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A peer is another leak checker.
type peer struct {
	name    string
	column  int      // of it in the table in docs/reachability.md
	flags   []string // of the C++ compiler
	command func(program string, how ...string) *exec.Cmd
	objects []string                           // of gcc, to link to a program of another compiler: first a library
	runs    int                                // a block is lost if one of them says so
	parse   func(out string) map[uint64]string // kind by size of block
	// gridRuns is how often it is asked about the grid: a cell is lost if it once says so.
	gridRuns int
}

var peers = []peer{
	{
		name: "LeakSanitizer", column: 3,
		flags: []string{"-fsanitize=leak"},
		command: func(program string, how ...string) *exec.Cmd {
			cmd := exec.Command(program, how...)
			cmd.Env = append(os.Environ(), "LSAN_OPTIONS=exitcode=0:max_leaks=0:print_suppressions=0:allocator_may_return_null=1")
			return cmd
		},
		objects: []string{"liblsan.so", "liblsan_preinit.o"},
		parse:   parseLSan,
		// It misses one to three of all 100 cells, other ones in each run: it looks from within exit, whose frames
		// lie over stale pointers.
		gridRuns: 3,
	},
	{
		name: "Valgrind", column: 4,
		command: func(program string, how ...string) *exec.Cmd {
			cmd := exec.Command("valgrind", "--leak-check=full", "--show-leak-kinds=all", "--leak-resolution=high",
				"--run-libc-freeres=no", "--run-cxx-freeres=no", "--num-callers=30", program)
			cmd.Args = append(cmd.Args, how...)
			cmd.Env = os.Environ()
			return cmd
		},
		parse: parseValgrind,
		// In it, any number may be an address: the clock ticks that the dynamic linker needed were one in the large
		// block in one of four runs on a quiet machine.
		runs: 2, gridRuns: 2,
	},
}

// TestRustCorpus scans the program of Rust's ways, as it runs and while it
// stands still.
func TestRustCorpus(t *testing.T) {
	program := filepath.Join(t.TempDir(), "leak_corpus_rust")
	compile(t, "rustc", "--edition", "2021", "-O", "-o", program, programs+"/leak_corpus.rs")
	c := startCorpus(t, program)
	r, err := Scan(c.process, c.each, Options{AllSeen: true})
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, nil)
	if r, err = Scan(c.process, c.each, Options{Threads: stopAll(t, c.process), AllSeen: true}); err != nil {
		t.Fatal(err)
	}
	c.check(t, r, nil)
}

// TestPeersSayTheSameOfTheCorpus runs the corpora under the other checkers.
// Where they say something else, that stands in the table in
// docs/reachability.md, which gives the reason; where they don't, it doesn't.
func TestPeersSayTheSameOfTheCorpus(t *testing.T) {
	table := differences(t)
	used, compared := make(map[string]bool), 0
	for _, p := range peers {
		t.Run(p.name+"/C++", func(t *testing.T) {
			program := buildCorpus(t, append([]string{"-DNO_TABLE"}, p.flags...)...)
			cmd := p.command(program, "x")
			cmd.Env = append(cmd.Env, "LEAK_TLS="+filepath.Join(filepath.Dir(program), "libleak_tls.so"))
			p.compare(t, cmd, table, used)
			compared++
		})
		t.Run(p.name+"/Rust", func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "leak_corpus_rust")
			args := []string{"--edition", "2021", "-O", "-g", "-o", program, programs + "/leak_corpus.rs"}
			for _, file := range p.objects {
				args = append(args, "-C", "link-arg="+fileOfGCC(t, file))
			}
			compile(t, "rustc", args...)
			cmd := p.command(program, "exit")
			if len(p.objects) > 0 { // the linker leaves out a library that nothing needs by name
				cmd.Env = append(cmd.Env, "LD_PRELOAD="+fileOfGCC(t, p.objects[0]))
			}
			p.compare(t, cmd, table, used)
			compared++
		})
	}
	runs := arrayRuns(arrayCases(t, buildArrays(t)))
	for _, p := range peers {
		t.Run(p.name+"/arrays", func(t *testing.T) {
			program := buildArrays(t, p.flags...)
			for _, cases := range runs {
				p.compare(t, p.command(program, cases), table, used)
			}
			compared++
		})
	}
	for name := range table {
		if !used[name] && compared == 3*len(peers) {
			t.Errorf("docs/reachability.md has the case %q, of which all say the same, or which there is not", name)
		}
	}
}

// TestPeersFindTheGrid holds what the other checkers say of every seventh cell of leak_grid.cc, of all ways of
// allocating, against what the program says itself, as TestGridOfOneBlockLeaks does with memtrace: all are definite.
func TestPeersFindTheGrid(t *testing.T) {
	for _, p := range peers {
		for _, how := range [][]string{{"-O0", "return"}, {"-O2", "exit"}} {
			t.Run(p.name+"/"+how[0]+"/"+how[1], func(t *testing.T) {
				program := filepath.Join(t.TempDir(), "leak_grid")
				compile(t, "g++", append([]string{"-std=c++17", "-g", how[0], "-o", program,
					programs + "/leak_grid.cc"}, p.flags...)...)
				p.findGrid(t, program, how[1])
			})
		}
	}
}

// findGrid compares what a peer says of the grid's cells with its lines "lost PID SIZE".
func (p *peer) findGrid(t *testing.T, program, how string) {
	t.Helper()
	var said string
	got := make(map[uint64]string)
	for range p.gridRuns {
		var out, complaints bytes.Buffer
		cmd := p.command(program, how, "7")
		cmd.Env = append(cmd.Env, "LSAN_OPTIONS=exitcode=0:symbolize=0")
		cmd.Stdout, cmd.Stderr = &out, &complaints
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, complaints.String())
		}
		said = out.String()
		for size, kind := range p.parse(complaints.String()) {
			if got[size] != "definite" {
				got[size] = kind
			}
		}
	}
	cells := 0
	for line := range strings.Lines(said) {
		var pid int
		var size uint64
		if _, err := fmt.Sscanf(line, "lost %d %d", &pid, &size); err != nil {
			t.Fatalf("the grid said %q", line)
		}
		if cells++; got[size] != "definite" {
			t.Errorf("%d bytes: %q, want definite", size, got[size])
		}
	}
	if cells != 15 {
		t.Errorf("%d cells", cells)
	}
}

// arrayRuns are the cases of arrays, in runs of such as differ in size. Left out
// are those that come with another, or lie in memory that the program itself divides.
func arrayRuns(names, _ []string, sizes []int) (runs []string) {
	nth := make(map[int]int)
	for i, name := range names {
		if strings.Contains(name, "packed") || strings.HasPrefix(name, "beside") || strings.HasPrefix(name, "owner") {
			continue
		}
		n := nth[sizes[i]]
		if nth[sizes[i]]++; n == len(runs) {
			runs = append(runs, name)
			continue
		}
		runs[n] += "," + name
	}
	return runs
}

// fileOfGCC returns the path of a file that comes with gcc.
func fileOfGCC(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("gcc", "-print-file-name="+name).Output()
	path := strings.TrimSpace(string(out))
	if err != nil || !filepath.IsAbs(path) {
		t.Fatalf("gcc has no %s: %q, %v", name, out, err)
	}
	return path
}

// compare runs a corpus under a peer. It notes which rows of the table hold.
func (p *peer) compare(t *testing.T, cmd *exec.Cmd, table map[string][]string, used map[string]bool) {
	t.Helper()
	cell := func(row []string, i int) string { // of blocks that lead to each other, the worst
		word, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(row[i], "all "), "one "), ",")
		return word
	}
	c := &corpus{want: make(map[uint64][]string), names: make(map[uint64]string)}
	got := make(map[uint64]string)
	for run := range max(p.runs, 1) {
		var out, complaints bytes.Buffer
		again := exec.Command(cmd.Path, cmd.Args[1:]...)
		again.Env, again.Stdout, again.Stderr = cmd.Env, &out, &complaints
		if err := again.Run(); err != nil {
			t.Fatalf("%v\n%s", err, complaints.String())
		}
		if run == 0 {
			c.read(t, &out)
		}
		for size, kind := range p.parse(complaints.String()) {
			if k := got[size]; k == "" || k == "reachable" || k == "possible" {
				got[size] = kind
			}
		}
	}
	for size, want := range c.want {
		name, theirs := c.names[size], got[size]
		if strings.HasPrefix(name, "circle_of_") {
			continue // both sum up blocks of one site, of whatever size
		}
		if theirs == "" {
			theirs = "reachable"
		}
		expected := want[0]
		if row, ok := table[name]; ok {
			if cell(row, 2) != want[0] {
				t.Errorf("docs/reachability.md: %s is %q with memtrace, want %q", name, row[2], want[0])
			}
			expected = cell(row, p.column)
			used[name] = used[name] || expected != want[0]
		}
		if theirs != expected {
			t.Errorf("%s (%d bytes): %q, want %q", name, size, theirs, expected)
		}
	}
}

// differences reads the table of docs/reachability.md: the cells of a row by
// the cases named in its first.
func differences(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/reachability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(doc), "## Beside other checkers\n")
	text, _, _ = strings.Cut(text, "\n## ")
	table := make(map[string][]string)
	named := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for _, m := range named.FindAllStringSubmatch(cells[1], -1) {
			table[m[1]] = cells
		}
	}
	if !found || len(table) == 0 {
		t.Fatal("docs/reachability.md has no table of differences")
	}
	return table
}

var lsanLine = regexp.MustCompile(`(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object`)

func parseLSan(out string) map[uint64]string {
	got := make(map[uint64]string)
	for _, m := range lsanLine.FindAllStringSubmatch(out, -1) {
		bytes, _ := strconv.ParseUint(m[2], 10, 64)
		n, _ := strconv.ParseUint(m[3], 10, 64)
		kind := map[string]string{"Direct": "definite", "Indirect": "indirect"}[m[1]]
		if size := bytes / n; got[size] == "" || kind == "definite" {
			got[size] = kind
		}
	}
	return got
}

var valgrindLine = regexp.MustCompile(`([\d,]+)(?: \([\d,]+ direct, [\d,]+ indirect\))? bytes in ([\d,]+) blocks are (definitely lost|indirectly lost|possibly lost|still reachable)`)

func parseValgrind(out string) map[uint64]string {
	kinds := map[string]string{"definitely lost": "definite", "indirectly lost": "indirect", "possibly lost": "possible", "still reachable": "reachable"}
	got := make(map[uint64]string)
	direct := regexp.MustCompile(`([\d,]+) direct`)
	for _, m := range valgrindLine.FindAllStringSubmatch(out, -1) {
		bytes := m[1]
		if d := direct.FindStringSubmatch(m[0]); d != nil {
			bytes = d[1]
		}
		total, _ := strconv.ParseUint(strings.ReplaceAll(bytes, ",", ""), 10, 64)
		n, _ := strconv.ParseUint(strings.ReplaceAll(m[2], ",", ""), 10, 64)
		size, kind := total/n, kinds[m[3]]
		if got[size] == "" || kind == "definite" {
			got[size] = kind
		}
	}
	return got
}
