//go:build integration && services

package collect

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/proctest"
)

// TestAgreesWithOtherTools compares what is collected of a stopped process
// with smem, pmap and numastat. All must be the same to the kilobyte they print
// but PSS: they sum rounded mappings, and others that map the same files come
// and go meanwhile. What those touch for the first time is the process's own no
// more, so that smem's USS is held against one from before and one from after.
func TestAgreesWithOtherTools(t *testing.T) {
	cmd := startChildAs(t, "big", "24", nil)
	proctest.Stop(t, cmd.Process.Pid)
	p := collectAll(t, open(t, Options{}), All).find(cmd.Process.Pid)
	pss, o := p.PSS()
	uss, _ := p.USS()
	swap, _ := p.Swap()
	if o != procfs.Known {
		t.Fatal(o)
	}
	mappings := uint64(len(strings.Split(tool(t, "pmap", "-q", fmt.Sprint(p.PID)), "\n")))
	t.Run("smem", func(t *testing.T) {
		for line := range strings.Lines(tool(t, "smem", "-H", "-c", "pid swap uss pss rss")) {
			f := kilobytes(line)
			if len(f) != 5 || f[0] != uint64(p.PID) {
				continue
			}
			later, _ := collectAll(t, open(t, Options{}), All).find(p.PID).USS()
			if f[1] != swap>>10 || f[2] < min(uss, later)>>10 || f[2] > max(uss, later)>>10 || f[4] != p.RSS>>10 {
				t.Errorf("swap %d, USS %d, later %d, RSS %d; smem: %s", swap>>10, uss>>10, later>>10, p.RSS>>10, line)
			}
			if f[3] > pss>>10+mappings || f[3]+mappings < pss>>10 {
				t.Errorf("PSS %d kB; smem: %d kB of %d mappings", pss>>10, f[3], mappings)
			}
			return
		}
		t.Error("smem doesn't list the process")
	})
	t.Run("pmap", func(t *testing.T) {
		// The last line has the sums: of sizes first, then of Rss and Pss.
		lines := strings.Split(strings.TrimSpace(tool(t, "pmap", "-X", fmt.Sprint(p.PID))), "\n")
		sums, header := kilobytes(lines[len(lines)-1]), strings.Fields(lines[1])
		for i, name := range header[5 : len(header)-1] { // after address, permissions, offset, device, inode
			switch {
			case name == "Rss" && sums[i] != p.RSS>>10:
				t.Errorf("RSS %d kB; pmap: %d", p.RSS>>10, sums[i])
			case name == "Pss" && (sums[i] > pss>>10+mappings || sums[i]+mappings < pss>>10):
				t.Errorf("PSS %d kB; pmap: %d", pss>>10, sums[i])
			case name == "Size" && sums[i]<<10 != p.VSize && sums[i]<<10 != p.VSize+4096: // with [vsyscall]
				t.Errorf("VIRT %d kB; pmap: %d", p.VSize>>10, sums[i])
			}
		}
	})
	t.Run("numastat", func(t *testing.T) { compareWithNumastat(t, p.PID) })
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
	nodes, err := held.NUMA(nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(tool(t, "numastat", "-p", fmt.Sprint(pid))) {
		f := strings.Fields(line)
		if len(f) != len(nodes)+2 || f[0] != "Total" {
			continue
		}
		for i, bytes := range nodes {
			mb, err := strconv.ParseFloat(f[1+i], 64)
			if got := float64(bytes) / (1 << 20); err != nil || mb < got-0.006 || mb > got+0.006 {
				t.Errorf("node %d: %.3f MB; numastat: %s", i, got, line)
			}
		}
		return
	}
	t.Error("numastat has no total")
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
