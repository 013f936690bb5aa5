package reach

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func buildArrays(t testing.TB, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "leak_arrays")
	compile(t, "g++", append([]string{"-std=c++17", "-O1", "-g", "-fno-builtin", "-o", program, programs + "/leak_arrays.cc"}, flags...)...)
	return program
}

// arrayCases are what the program says of itself in the order of its blocks:
// many have the same size.
func arrayCases(t testing.TB, program string) (names, verdicts []string, sizes []int) {
	t.Helper()
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		var name, verdict string
		var size int
		if n, _ := fmt.Sscanf(lines.Text(), "case %s %d %s", &name, &size, &verdict); n == 3 {
			names, verdicts, sizes = append(names, name), append(verdicts, verdict), append(sizes, size)
		}
	}
	if len(names) == 0 {
		t.Fatalf("the program said %q", out)
	}
	return names, verdicts, sizes
}

// TestArraysOfTypesWithADestructor scans arrays that the program keeps by a
// pointer behind their number, and some that it lost.
func TestArraysOfTypesWithADestructor(t *testing.T) {
	program := buildArrays(t)
	names, verdicts, _ := arrayCases(t, program)
	c := startCorpus(t, program)
	for _, threads := range [][]Thread{nil, stopAll(t, c.process)} {
		r, err := Scan(c.process, c.each, Options{Threads: threads, AllSeen: true})
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[uint64]Kind)
		for _, l := range r.Leaks {
			found[l.Addr] = l.Kind
		}
		for i, b := range c.blocks {
			if got := found[b.Addr].String(); got != verdicts[i] {
				t.Errorf("%s (%d bytes at %#x): %s, want %s", names[i], b.Size, b.Addr, got, verdicts[i])
			}
		}
	}
}
