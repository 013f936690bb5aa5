package machine

import (
	"fmt"

	"github.com/memtrace/memtrace/procfs"
)

// Sums are what the processes of the machine add up to, in bytes, as a
// collect.Pass gives it.
type Sums struct {
	USS, PSS uint64
	// Unread is the number of processes with memory that the sums lack, because
	// they may not be read or the budget was spent.
	Unread int
}

// Part is a line of the books.
type Part struct {
	Name  string // such as "page cache"
	Bytes int64  // negative only for what remains unexplained
	// Estimated says that the kernel doesn't count this by itself; Why how it
	// was found then.
	Estimated bool
	Why       string
}

// Books split the machine's memory into parts that add up to Total.
type Books struct {
	Total uint64
	Parts []Part // the last one is what remains unexplained
	// Mapped is what the kernel counts as mapped by processes, anonymous and
	// file pages; the sum of all processes' PSS is close to it.
	Mapped uint64
}

// Unexplained is Total less all that has a name: memory that drivers and the
// kernel took by the page without counting it. Below zero, something was
// counted twice, or changed between two reads.
func (b *Books) Unexplained() int64 { return b.Parts[len(b.Parts)-1].Bytes }

// Books reads meminfo, vmstat and zoneinfo and balances them.
func (r *Reader) Books(s Sums) (Books, error) {
	if err := r.Meminfo(&r.meminfo); err != nil {
		return Books{}, err
	}
	if err := r.Vmstat(&r.vmstat); err != nil {
		return Books{}, err
	}
	var err error
	if r.zones, err = r.Zoneinfo(r.zones); err != nil {
		return Books{}, err
	}
	return Balance(&r.meminfo, &r.vmstat, r.zones, s)
}

// Balance splits MemTotal of meminfo. Documentation/filesystems/proc.rst says
// what each figure counts; where two overlap, the overlap is taken off one:
//
//   - mapped file pages are part of Cached and belong to the processes here;
//   - VmallocUsed holds kernel stacks where these are mapped (CONFIG_VMAP_STACK,
//     as on x86-64 and arm64), and KernelStack counts them too;
//   - SwapCached holds anonymous pages, of which those that are mapped are in
//     AnonPages; the others are found from the lists of the page reclaim;
//   - MemFree leaves out the free pages that each CPU keeps for itself.
func Balance(meminfo, vmstat *procfs.Counters, zones []NodeStats, s Sums) (Books, error) {
	m := figures{meminfo}
	total, ok := meminfo.Get("MemTotal")
	if !ok {
		return Books{}, fmt.Errorf("balance memory: %w: meminfo has no MemTotal", procfs.ErrFormat)
	}
	b := Books{Total: total, Mapped: m.get("AnonPages") + m.get("Mapped")}
	b.processes(s)
	cached, mapped := m.get("Cached"), m.get("Mapped")
	b.add("page cache", cached-min(cached, mapped), "")
	b.add("buffers", m.get("Buffers"), "")
	b.add("swap cache", swapCache(m), "anonymous pages on the reclaim lists that no process maps")
	b.add("slab", m.get("Slab"), "")
	b.add("page tables", m.get("PageTables")+m.get("SecPageTables"), "")
	b.add("kernel stacks", m.get("KernelStack"), "")
	b.add("percpu", m.get("Percpu"), "")
	used, stacks := m.get("VmallocUsed"), m.get("KernelStack")
	b.add("vmalloc", used-min(used, stacks), "less the kernel stacks, which are taken to be in it")
	b.add("huge pages", m.get("Hugetlb"), "")
	b.add("compressed swap", figures{vmstat}.get("nr_zspages")*pageSize, "")
	b.add("free per CPU", freePerCPU(zones), "")
	b.add("free", m.get("MemFree"), "")
	b.close()
	return b, nil
}

// processes splits what is mapped into what one process alone maps, and the rest.
func (b *Books) processes(s Sums) {
	private := min(s.USS, b.Mapped)
	why := ""
	switch {
	case s.Unread == 1:
		why = "one process could not be read; what it alone maps is counted as shared"
	case s.Unread > 1:
		why = fmt.Sprintf("%d processes could not be read; what they alone map is counted as shared", s.Unread)
	}
	b.add("process private", private, why)
	b.add("process shared", b.Mapped-private, why)
}

// swapCache is the part of SwapCached that no process maps.
func swapCache(m figures) uint64 {
	lists := m.get("Active") + m.get("Inactive") + m.get("Unevictable")
	mapped := m.get("AnonPages") + m.get("Cached") + m.get("Buffers")
	return min(lists-min(lists, mapped), m.get("SwapCached"))
}

func freePerCPU(zones []NodeStats) (bytes uint64) {
	for _, n := range zones {
		for _, z := range n.Zones {
			bytes += z.PerCPU * pageSize
		}
	}
	return bytes
}

// add adds a part; one with a reason is an estimate.
func (b *Books) add(name string, bytes uint64, why string) {
	b.Parts = append(b.Parts, Part{Name: name, Bytes: int64(bytes), Estimated: why != "" && bytes > 0, Why: why})
}

// close adds what is missing.
func (b *Books) close() {
	rest := int64(b.Total)
	for _, p := range b.Parts {
		rest -= p.Bytes
	}
	b.Parts = append(b.Parts, Part{Name: "unexplained", Bytes: rest,
		Why: "pages that drivers and the kernel took without counting them"})
}

// figures reads Counters of which a kernel may lack some, which are zero then:
// what it doesn't count remains unexplained.
type figures struct{ c *procfs.Counters }

func (f figures) get(name string) uint64 {
	v, _ := f.c.Get(name)
	return v
}
