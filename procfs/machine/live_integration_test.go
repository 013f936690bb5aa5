//go:build integration

package machine

import (
	"testing"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// sums adds up the machine's processes.
func sums(t *testing.T) (s Sums) {
	t.Helper()
	c, err := collect.Open(collect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	pass, err := c.Collect(collect.Memory)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pass.Processes {
		if uss, o := p.USS(); o.Ok() {
			pss, _ := p.PSS()
			s.USS, s.PSS = s.USS+uss, s.PSS+pss
		} else {
			s.Unread++
		}
	}
	return s
}

// TestBooksOfThisMachine: the parts are the whole, and the kernel's own count
// of what is mapped is what all processes' PSS add up to.
func TestBooksOfThisMachine(t *testing.T) {
	r, err := Open("/proc", "/sys")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s := sums(t)
	b, err := r.Books(s)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, p := range b.Parts {
		t.Logf("%-16s %9d kB", p.Name, p.Bytes>>10)
		total += p.Bytes
	}
	if total != int64(b.Total) {
		t.Errorf("the parts are %d, the whole is %d", total, b.Total)
	}
	t.Logf("mapped %d kB, PSS of all %d kB, %d not read; %.2f %% unexplained", b.Mapped>>10, s.PSS>>10, s.Unread,
		100*float64(b.Unexplained())/float64(b.Total))
	checkIdle(t, &b, s)
}

// TestReadersOnThisKernel: what this kernel writes can be parsed.
func TestReadersOnThisKernel(t *testing.T) {
	r, err := Open("/proc", "/sys")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if nodes, err := r.Nodes(nil); err != nil || len(nodes) == 0 {
		t.Errorf("%v, %v", nodes, err)
	}
	if nodes, err := r.Zoneinfo(nil); err != nil || len(nodes) == 0 || len(nodes[0].Zones) == 0 {
		t.Errorf("%v, %v", nodes, err)
	}
	if slabs, err := r.Slabinfo(nil); err != nil || len(slabs) < 20 {
		t.Errorf("%d caches, %v", len(slabs), err)
	}
	if _, err := r.Pressure(); !procfs.OutcomeOf(err).Ok() && procfs.OutcomeOf(err) != procfs.NotSupported {
		t.Errorf("pressure: %v", err)
	}
	counts, err := DetectMapCounts("/")
	t.Logf("map counts: %v", counts)
	if err != nil {
		t.Error(err)
	}
}
