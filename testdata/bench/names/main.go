// Command names measures how fast addresses of a big binary get their names,
// beside addr2line and llvm-symbolizer, and writes the section "names" of
// docs/benchmarks.md. The benchmarks are those of analyzer/symbol.
package main

import (
	"bytes"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

func main() {
	file := flag.String("file", "", "the binary (analyzer/symbol/testdata/bigdwarf.sh makes one)")
	out := flag.String("o", "docs/benchmarks.md", "the document")
	flag.Parse()
	if err := run(*file, *out); err != nil {
		fmt.Fprintln(os.Stderr, "names:", err)
		os.Exit(1)
	}
}

func run(file, out string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	dwarf, size, err := sizes(file)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "test", "-run", "-", "-bench", "Cold|Cached|Addr2line|LLVM", "-benchtime", "3x", "./analyzer/symbol")
	cmd.Env = append(os.Environ(), "SYMBOL_BENCH_FILE="+file)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the benchmarks: %w: %s", err, text)
	}
	body, err := document(text, size, dwarf)
	if err != nil {
		return err
	}
	fmt.Print(body)
	return section.Write(out, "names", body)
}

// sizes returns the bytes of a file and those of its DWARF.
func sizes(file string) (dwarf, size uint64, err error) {
	st, err := os.Stat(file)
	if err != nil {
		return 0, 0, err
	}
	e, err := elf.Open(file)
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	for _, s := range e.Sections {
		if strings.HasPrefix(s.Name, ".debug_") {
			dwarf += s.FileSize
		}
	}
	return dwarf, uint64(st.Size()), nil
}

const intro = `## Names

Written by ` + "`make bench-names`" + `: 1,000 random addresses of the code of a C++ binary of %d MB, %d MB of them DWARF, get all their
functions, inlined ones too, with files and lines, demangled; the means of three turns, the file in the page cache. Memory is the
peak, pages of mapped files included; memtrace's has the test program's own in it.

| | time | memory |
|---|---:|---:|
`

var (
	line  = regexp.MustCompile(`(?m)^Benchmark(\w+?)(?:-\d+)?\s+\d+\s+(\d+) ns/op\s+([\d.]+) peak-MB`)
	names = []struct{ benchmark, text string }{
		{"Cold", "memtrace, from nothing"}, {"Cached", "memtrace, from its cache"}, {"LLVM", "llvm-symbolizer"}, {"Addr2line", "addr2line"},
	}
)

// document makes the section of what go test printed.
func document(text []byte, size, dwarf uint64) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, intro, size/1e6, dwarf/1e6)
	found := map[string][]string{}
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2:]
	}
	for _, n := range names {
		m := found[n.benchmark]
		if m == nil {
			return "", fmt.Errorf("no result of Benchmark%s in: %s", n.benchmark, text)
		}
		ns, err := strconv.ParseFloat(m[0], 64)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | %.3f s | %s MB |\n", n.text, ns/1e9, m[1])
	}
	return b.String(), nil
}
