//go:build integration && services

package collect

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// TestAgreesWithOtherTools compares what is collected of a stopped process,
// whose files nobody else maps, with smem, pmap and numastat. All must be the
// same to the kilobyte they print but PSS: they sum mappings, which the kernel
// rounds down.
func TestAgreesWithOtherTools(t *testing.T) {
	program := copySelf(t)
	pid := startStopped(t, program, "24")
	c := open(t, Options{})
	for name, reference := range map[string]func() toolSums{
		"smem": func() toolSums { return smemOf(t, pid, filepath.Base(program.Path)) },
		"pmap": func() toolSums { return pmapOf(t, pid) },
	} {
		t.Run(name, func(t *testing.T) {
			s, pass := proctest.Settled(t, reference, func() *Pass { return collectAll(t, c, All) })
			s.compare(t, pass.find(pid))
		})
	}
	t.Run("numastat", func(t *testing.T) { compareWithNumastat(t, pid) })
}

// toolSums are a tool's sums over a process's mappings, in kB; size is 0 where it has none.
type toolSums struct{ size, rss, uss, swap, pss uint64 }

func smemOf(t *testing.T, pid int, name string) toolSums {
	t.Helper()
	out := tool(t, "smem", "-H", "-P", name, "-c", "pid swap uss pss rss")
	for line := range strings.Lines(out) {
		if f := kilobytes(line); len(f) == 5 && f[0] == uint64(pid) {
			return toolSums{rss: f[4], uss: f[2], swap: f[1], pss: f[3]}
		}
	}
	t.Fatalf("smem doesn't list the process: %s", out)
	return toolSums{}
}

// pmapOf reads the last line of pmap -XX, which has the sums of the columns after
// address, permissions, offset, device and inode, up to the flags.
func pmapOf(t *testing.T, pid int) (s toolSums) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(tool(t, "pmap", "-XX", fmt.Sprint(pid))), "\n")
	sums, header := kilobytes(lines[len(lines)-1]), strings.Fields(lines[1])
	for i, name := range header[5:][:len(sums)] {
		switch name {
		case "Size":
			s.size = sums[i]
		case "Rss":
			s.rss = sums[i]
		case "Pss":
			s.pss = sums[i]
		case "Private_Clean", "Private_Dirty":
			s.uss += sums[i]
		case "Swap":
			s.swap = sums[i]
		}
	}
	return s
}

func (s toolSums) compare(t *testing.T, p *Process) {
	t.Helper()
	uss, o := p.USS()
	pss, _ := p.PSS()
	swap, _ := p.Swap()
	if o != procfs.Known || p.RSS>>10 != s.rss || uss>>10 != s.uss || swap>>10 != s.swap {
		t.Errorf("RSS %d, USS %d, swap %d, %v; the tool says %+v kB", p.RSS, uss, swap, o, s)
	}
	mappings := uint64(strings.Count(tool(t, "pmap", "-q", fmt.Sprint(p.PID)), "\n"))
	if pss>>10 < s.pss || pss>>10 > s.pss+mappings {
		t.Errorf("PSS %d; the tool says %d kB of %d mappings", pss, s.pss, mappings)
	}
	if s.size != 0 && s.size<<10 != p.VSize && s.size<<10 != p.VSize+4096 { // with [vsyscall]
		t.Errorf("VIRT %d; the tool says %d kB", p.VSize, s.size)
	}
}

// compareWithNumastat compares the process's sum over nodes, which numastat
// prints in MB with two digits.
func compareWithNumastat(t *testing.T, pid int) {
	t.Helper()
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	held, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	said, nodes := proctest.Settled(t, func() []string { return numastatTotal(t, pid) }, func() []uint64 {
		nodes, err := held.NUMA(nil)
		if err != nil {
			t.Fatal(err)
		}
		return nodes
	})
	if len(said) != len(nodes)+1 {
		t.Fatalf("%d nodes; numastat: %q", len(nodes), said)
	}
	for i, bytes := range nodes {
		mb, err := strconv.ParseFloat(said[i], 64)
		if got := float64(bytes) / (1 << 20); err != nil || mb < got-0.006 || mb > got+0.006 {
			t.Errorf("node %d: %.3f MB; numastat: %s", i, got, said)
		}
	}
}

// numastatTotal are the last line's figures: one a node, and their sum.
func numastatTotal(t *testing.T, pid int) []string {
	t.Helper()
	out := tool(t, "numastat", "-p", fmt.Sprint(pid))
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "Total" {
			return f[1:]
		}
	}
	t.Fatalf("numastat has no total: %s", out)
	return nil
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// kilobytes returns the numbers of a line.
func kilobytes(line string) (v []uint64) {
	for _, f := range strings.Fields(line) {
		if n, err := strconv.ParseUint(f, 10, 64); err == nil {
			v = append(v, n)
		}
	}
	return v
}
