package analyzer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/event"
)

// TestMappingsOfAnUnprobedProcess compares two readings of one without an allocator.
func TestMappingsOfAnUnprobedProcess(t *testing.T) {
	vmas := []fakeVMA{
		{16, "PPP", "r-xp", "/opt/gateway", 0},
		{32, "PP-S", "rw-p", "[anon: Go: heap]", -1},
		{64, "P---", "rw-p", "", -1},
		{80, "P", "rw-p", "", -1},
		{90, "----", "---p", "", -1},
		{100, "PP", "rw-p", "[gone soon]", -1},
	}
	p, dir := fakeProcess(t, vmas)
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: 77, Unprobed: true})
	sampler := new(Sampler)
	correlate := func() *report.Report {
		if _, err := sampler.Sample(a, p, nil, testStart+1, a.give); err != nil {
			t.Fatal(err)
		}
		return a.reportAt(testStart+2, ReportOptions{}, nil)
	}
	correlate()
	vmas[1].pages, vmas[3].pages = "PPPPPP", "-"
	rewriteProcess(t, dir, append(vmas[:5:5], fakeVMA{120, "PP", "rw-s", "/memfd:new (deleted)", 0}))
	in := func(pages int) uint64 { return uint64(pages) * pageBytes }
	grown := func(pages int) int64 { return int64(pages) * int64(pageBytes) }
	want := []report.Mapping{
		mappingOf("[anon: Go: heap]", "rw-p", 1, in(6), in(6), 0, grown(4), grown(2)),
		mappingOf("/opt/gateway", "r-xp", 1, in(3), in(3), 0, 0, 0),
		mappingOf("/memfd:new (deleted)", "rw-s", 1, in(2), in(2), 0, grown(2), grown(2)),
		mappingOf("[anon]", "rw-p", 2, in(5), in(1), 0, grown(-1), 0),
		mappingOf("[anon]", "---p", 1, in(4), 0, 0, 0, 0),
		mappingOf("[gone soon]", "rw-p", 0, 0, 0, 0, grown(-2), grown(-2)),
	}
	proc := correlate().Processes[1] // after the test's own
	if !proc.Unprobed || !slices.Equal(proc.Mappings, want) {
		t.Errorf("unprobed %v\n got %+v\nwant %+v", proc.Unprobed, proc.Mappings, want)
	}
	var sum uint64
	for _, m := range proc.Mappings {
		sum += m.ResidentBytes
	}
	if sum != proc.Usage.RSS || sum != proc.RSSBy.Sum() {
		t.Errorf("mappings hold %d, RSS is %d, its parts %d", sum, proc.Usage.RSS, proc.RSSBy.Sum())
	}
	if r := a.reportAt(testStart+3, ReportOptions{Top: 2}, nil).Processes[1]; len(r.Mappings) != 2 || r.MappingsMore != 4 {
		t.Errorf("%d mappings and %d more", len(r.Mappings), r.MappingsMore)
	}
}

func mappingOf(name, perms string, count, bytes, resident, swapped uint64, growth, mappedGrowth int64) report.Mapping {
	return report.Mapping{
		Name: name, Perms: perms, Count: count, Bytes: bytes, ResidentBytes: resident, SwappedBytes: swapped,
		GrowthBytes: growth, MappedGrowthBytes: mappedGrowth,
	}
}

// TestTooManyMappings: what has too many names is summed up.
func TestTooManyMappings(t *testing.T) {
	var vmas []fakeVMA
	for i := range 2000 {
		vmas = append(vmas, fakeVMA{16 + 2*i, "P", "rw-p", fmt.Sprintf("/dev/shm/%d", i), 0})
	}
	p, _ := fakeProcess(t, vmas)
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: 77, Unprobed: true})
	sums := &mappingSums{sums: make(map[mappingKey]*mappingSum)}
	for i := range maxMappings - 1000 {
		sums.sums[mappingKey{name: fmt.Sprint(i)}] = new(mappingSum)
	}
	sampler := &Sampler{proc: a.byPID[77], mappings: sums}
	if _, err := sampler.Sample(a, p, nil, testStart+1, a.give); err != nil {
		t.Fatal(err)
	}
	if n, rest := len(sums.sums), sums.sums[mappingKey{name: "[others]"}]; n != maxMappings+1 || rest == nil || rest.count != 1000 || rest.resident != 1000*pageBytes {
		t.Errorf("%d names, the others %+v", n, rest)
	}
}

// TestProcessesKeepNoSites: what is kept of a process does not grow with the
// sites of all others.
func TestProcessesKeepNoSites(t *testing.T) {
	p, _ := fakeProcess(t, []fakeVMA{{80, "PP", "rw-p", "[heap]", 0}})
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: 77})
	tr := new(trace)
	for i := range uint64(100) {
		tr.malloc(80*pageBytes+64*i, 64, event.StackID(i+1))
	}
	for i := range tr.events {
		tr.events[i].PID = 77
	}
	a.Apply(tr.events)
	var sampler Sampler
	for range 2 {
		if _, err := sampler.Sample(a, p, nil, testStart+1, a.give); err != nil {
			t.Fatal(err)
		}
		c := &a.byPID[77].pages
		if kept := cap(sampler.residency.sites); kept != 0 || c.blocks.Resident != 6400 {
			t.Errorf("figures of %d sites are kept; %d bytes are resident", kept, c.blocks.Resident)
		}
	}
}

// TestLongNamesOfMappings: names of a process's mappings hold so much and no more, and the sums stay whole.
func TestLongNamesOfMappings(t *testing.T) {
	var m mappingSums
	m.begin()
	const n, page = 4000, 4096
	for i := range n {
		m.add(&procfs.VMA{Start: uint64(i) * page, End: uint64(i+1) * page, Path: fmt.Appendf(nil, "/%04d%s", i, strings.Repeat("x", 4000))})
	}
	text, bytes := 0, uint64(0)
	for key, s := range m.sums {
		text += len(key.name)
		bytes += s.bytes
	}
	if text > maxMappingText+len("[others]") || bytes != n*page {
		t.Errorf("names have %d bytes, and the mappings %d of %d", text, bytes, n*page)
	}
}
