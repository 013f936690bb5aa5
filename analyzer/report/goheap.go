package report

// GoHeap is what a Go program's own memory profile says of its heap, as of its last garbage collection. It was read from outside. Report.Sites
// has the same by call stack, with Site.Basis GoProfile.
type GoHeap struct {
	Version string `json:"version"`  // of the Go that built the program
	FoundBy string `json:"found_by"` // how its variables were: symbols, or code in a stripped program
	// Rate: Go samples one block in so many bytes on average (runtime.MemProfileRate). 1 is every block, and the figures are exact.
	Rate       uint64 `json:"rate"`
	ReadNS     uint64 `json:"read_ns"` // when it had changed last, since the attach
	LiveBytes  uint64 `json:"live_bytes"`
	LiveCount  uint64 `json:"live_count"`
	AllocBytes uint64 `json:"alloc_bytes"` // since the program began
	AllocCount uint64 `json:"alloc_count"`
	FreeCount  uint64 `json:"free_count"`
	// GrowthBytes are the live bytes less those of the first reading.
	GrowthBytes int64     `json:"growth_bytes"`
	Estimate    *Estimate `json:"estimate,omitempty"` // nil where the figures are exact
	// BeforeGC: no collection has ended yet, and all that was ever sampled counts as live.
	BeforeGC bool `json:"before_gc,omitempty"`
	// Unsettled: Go was publishing samples as they were read; sites may be as of different collections.
	Unsettled bool `json:"unsettled,omitempty"`
	// Cut: there are more samples than memtrace reads, and the oldest ones are missing.
	Cut bool `json:"cut,omitempty"`
	// Problem says why there are no figures; "" where there are.
	Problem string `json:"problem,omitempty"`
}

// GoProfile is Site.Basis of what a Go program's own memory profile says.
const GoProfile = "go_profile"

// HeapBytes are the live bytes that are known of a process: what is traced, and what its Go runtime says.
func (p *Process) HeapBytes() uint64 {
	if p.GoHeap == nil {
		return p.Heap.LiveBytes
	}
	return p.Heap.LiveBytes + p.GoHeap.LiveBytes
}
