package live

import (
	"path/filepath"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs/machine"
)

// estimates says why PSS and USS are estimates on this kernel; empty: they are
// not. proc is where its files are mounted.
func estimates(proc string) string {
	counts, err := machine.DetectMapCounts(filepath.Dir(filepath.Clean(proc)))
	if err != nil || !counts.Estimated() {
		return "" // a tree without a version is not the kernel's own
	}
	return "~ PSS, USS: how often a page is mapped is " + counts.String()
}

// markEstimates marks what rests on how often the kernel says a page is mapped.
func (s *Source) markEstimates(out *top.Snapshot) {
	if s.estimated == "" {
		return
	}
	out.Notes = append(out.Notes, s.estimated)
	mark := func(figures ...*top.Figure) {
		for _, f := range figures {
			f.Estimated = f.Known() && f.N != 0
		}
	}
	for i := range out.Processes {
		mark(&out.Processes[i].PSS, &out.Processes[i].USS)
	}
	for i := range out.Groups {
		mark(&out.Groups[i].PSS, &out.Groups[i].USS)
	}
	for i := range out.Components {
		mark(&out.Components[i].PSS, &out.Components[i].USS)
	}
	for i := range out.Mappings {
		mark(&out.Mappings[i].PSS, &out.Mappings[i].USS)
	}
	for i := range out.Books {
		if e := &out.Books[i]; e.Name == "process private" || e.Name == "process shared" {
			mark(&e.Size)
		}
	}
}
