//go:build integration

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

var writeSupport = flag.Bool("write-support", false, "test every cell of README.md's table of allocators, and write it")

var supportMarks = regexp.MustCompile(`(?s)(<!-- allocators: begin.*?-->\n)(.*)(<!-- allocators: end -->\n)`)

// build is a way to give a program an allocator.
type build struct {
	allocator, how string
	compiler       string
	flags          []string // before the source
	libraries      []string // after it
	preload        string
	setting        string // of the allocator, in the environment
	split          bool   // its symbols are in a separate debug file
	lacks          string
	dir            string // where its programs are
}

const (
	jemallocLib = "libjemalloc.so.2"
	tcmallocLib = "libtcmalloc_minimal.so.4"
	mimallocLib = "libmimalloc.so.[23]"
	scudoLib    = "libclang_rt.scudo_standalone-x86_64.so"
)

// builds are the rows of the table. What Debian has no package for is listed
// with that as the reason.
var builds = []build{
	{allocator: "glibc", how: "shared"},
	{allocator: "glibc", how: "shared, stripped, with debug file", split: true},
	{allocator: "glibc", how: "static", flags: []string{"-static"}},
	{allocator: "glibc", how: "static-pie", flags: []string{"-static-pie"}},
	{allocator: "glibc", how: "static, stripped, with debug file", flags: []string{"-static"}, split: true},
	{allocator: "musl", how: "shared", compiler: "musl-gcc"},
	{allocator: "musl", how: "static", compiler: "musl-gcc", flags: []string{"-static"}},
	{allocator: "musl", how: "static, stripped, with debug file", compiler: "musl-gcc", flags: []string{"-static"}, split: true},
	{allocator: "jemalloc", how: "preloaded", preload: jemallocLib},
	{allocator: "jemalloc", how: "shared", libraries: []string{"-l:" + jemallocLib}},
	{allocator: "jemalloc", how: "static", flags: []string{"-static"}, libraries: []string{"-ljemalloc", "-lstdc++", "-lm"}},
	{allocator: "jemalloc", how: "static, stripped, with debug file", flags: []string{"-static"}, libraries: []string{"-ljemalloc", "-lstdc++", "-lm"}, split: true},
	{allocator: "tcmalloc", how: "preloaded", preload: tcmallocLib},
	{allocator: "tcmalloc", how: "shared", libraries: []string{"-l:" + tcmallocLib}},
	{allocator: "tcmalloc", how: "static", flags: []string{"-static"}, libraries: []string{"-ltcmalloc_minimal", "-lstdc++", "-lm"}},
	{allocator: "tcmalloc", how: "static, stripped, with debug file", flags: []string{"-static"}, libraries: []string{"-ltcmalloc_minimal", "-lstdc++", "-lm"}, split: true},
	{allocator: "mimalloc", how: "preloaded", preload: mimallocLib},
	{allocator: "mimalloc", how: "shared", libraries: []string{"-l:" + mimallocLib}},
	{allocator: "mimalloc", how: "static", lacks: "Debian has no static library"},
	{allocator: "scudo", how: "preloaded", preload: scudoLib},
	{allocator: "scudo", how: "static", lacks: "Debian has no static library"},
	{allocator: "snmalloc", how: "any", lacks: "Debian has no package"},
}

// columns are the modes: of every_function, and of births for its children.
var columns = []string{"run", "attach", "fork", "vfork", "posix_spawn", "exec"}

// births' names for the ways to make a child.
var forkModes = map[string]string{"fork": "fork", "vfork": "vfork", "posix_spawn": "spawn", "exec": "exec"}

// TestAllocatorTable tests what README.md's table says: all of it with
// -write-support, which writes it, else one mode of each row, another each row,
// and that the table has no other rows.
func TestAllocatorTable(t *testing.T) {
	t.Parallel()
	readme := filepath.Join("..", "..", "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	table := supportMarks.FindSubmatch(text)
	if table == nil {
		t.Fatal("README.md has no marks for the table of allocators")
	}
	rows := make([][]string, len(builds))
	if *writeSupport {
		t.Cleanup(func() { writeTable(t, readme, text, rows) }) // after the rows, which are tested side by side
	}
	for i, b := range builds {
		documented := b.documented(string(table[2]))
		if len(documented) != len(columns) && !*writeSupport {
			t.Errorf("README.md has no row for %s, %s: run with -write-support", b.allocator, b.how)
			continue
		}
		t.Run(b.allocator+"/"+b.how, func(t *testing.T) {
			t.Parallel()
			b.dir = t.TempDir()
			for k, column := range columns {
				if !*writeSupport && k != i%len(columns) {
					continue
				}
				cell := b.lacks
				t.Run(column, func(t *testing.T) {
					if cell == "" {
						cell = b.try(t, column)
					}
					if !*writeSupport && cell != documented[k] {
						t.Errorf("%q, README.md says %q", cell, documented[k])
					}
				})
				rows[i] = append(rows[i], cell)
			}
		})
	}
}

// writeTable puts what was found into README.md.
func writeTable(t *testing.T, readme string, text []byte, rows [][]string) {
	t.Helper()
	var fresh strings.Builder
	fmt.Fprintf(&fresh, "| allocator | how | %s |\n|---|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for i, b := range builds {
		fmt.Fprintf(&fresh, "| %s | %s | %s |\n", b.allocator, b.how, strings.Join(rows[i], " | "))
	}
	text = supportMarks.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(fresh.String(), "$", "$$")+"${3}"))
	if err := os.WriteFile(readme, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// documented are the cells of the build's row.
func (b build) documented(table string) (cells []string) {
	for line := range strings.Lines(table) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), fmt.Sprintf("| %s | %s | ", b.allocator, b.how))
		if ok {
			return strings.Split(strings.TrimSuffix(rest, " |"), " | ")
		}
	}
	return nil
}

// try traces a program of the build in one mode and says "exact", or what is not.
func (b build) try(t *testing.T, column string) string {
	var problems []string
	switch column {
	case "run":
		c, r := runAnswering(t, b.env(t), nil, []string{b.compile(t, "every_function"), "run", "no-pvalloc"})
		problems = append(c.siteErrors(t, &r), lossErrors(&r)...)
	case "attach":
		c, r := b.attachTo(t, "every_function", "no-pvalloc")
		problems = append(c.siteErrors(t, r), lossErrors(r)...)
	default:
		c, r := b.attachTo(t, "births", forkModes[column], "5", "2")
		problems = c.forkErrors(t, r)
	}
	if len(problems) > 0 {
		t.Logf("%s", strings.Join(problems, "\n"))
		return "inexact: " + problems[0]
	}
	return "exact"
}

func (b build) attachTo(t *testing.T, name string, args ...string) (*child, *report.Report) {
	t.Helper()
	program := exec.Command(b.compile(t, name), append([]string{"attach"}, args...)...)
	program.Env = append(os.Environ(), b.env(t)...)
	c, err := startCommand(t, program)
	if err != nil {
		t.Fatal(err)
	}
	tr := attach(t, c.cmd.Process.Pid)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	return c, &r
}

// env is what its programs run with.
func (b build) env(t *testing.T) []string {
	t.Helper()
	if b.preload == "" {
		return nil
	}
	env := []string{"LD_PRELOAD=" + privateLibrary(t, b.preload)}
	if b.setting != "" {
		env = append(env, b.setting)
	}
	return env
}

// compile builds a test program. Not all allocators have pvalloc, and the C
// library's malloc would come with its.
func (b build) compile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	compiler := b.compiler
	if compiler == "" {
		compiler = "gcc"
	}
	args := []string{"-g", "-w", "-O1", "-fno-omit-frame-pointer", "-fno-builtin", "-fno-optimize-sibling-calls", "-pthread", "-Dpvalloc=valloc"}
	args = append(append(args, b.flags...), "-o", path, filepath.Join("..", "..", "testdata", "programs", name+".c"))
	for _, l := range b.libraries {
		if file, ok := strings.CutPrefix(l, "-l:"); ok {
			l = library(t, file)
		}
		args = append(args, l)
	}
	tool := func(name string, args ...string) {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	tool(compiler, args...)
	if b.split {
		tool("objcopy", "--only-keep-debug", path, path+".debug")
		tool("objcopy", "--strip-all", "--add-gnu-debuglink="+path+".debug", path)
	}
	return path
}

func lossErrors(r *report.Report) (problems []string) {
	if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 {
		problems = append(problems, fmt.Sprintf("%d lost, %d frees unmatched, %d overwritten", r.Events.Lost, r.Events.UnmatchedFree, r.Events.Overwritten))
	}
	return problems
}
