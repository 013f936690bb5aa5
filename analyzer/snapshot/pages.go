package snapshot

// Pages is what a snapshot knows page by page: which frame is at which address
// of which process, and how often each frame is mapped, and its flags. All of
// it was read after the mappings, and the frames after the addresses.
type Pages struct {
	Processes []ProcessPages // those whose pages were read or were to be, by Process
	Frames    []FrameRun     // ascending, disjoint
	// FramesAccess says whether counts and flags were read; Why says why not.
	// FramesLeft is how many frames were not reached.
	FramesAccess Access
	FramesWhy    string
	FramesLeft   uint64
}

// ProcessPages are the pages of one process that are in memory.
type ProcessPages struct {
	Process int // index into Snapshot.Processes
	Access  Access
	Why     string
	Runs    []PageRun // ascending by address; where Access is not Known, those that were reached
}

// PageRun are consecutive pages of one component in consecutive frames.
type PageRun struct {
	Page      uint64 // address divided by the page size
	Frame     uint64 // number of the first page's frame
	Count     uint32 // of pages
	Component uint32 // index into Snapshot.Components
}

// FrameRun are consecutive frames of which the same is known.
type FrameRun struct {
	First  uint64
	Count  uint32
	Mapped uint32 // how often each is mapped: kpagecount
	Flags  uint64 // kpageflags, as procfs.FrameFlag
}

// maxRuns bounds the runs of pages, and those of frames, of a snapshot.
const maxRuns = 16 << 20

// mergeRun appends a run, or makes the last one longer.
func mergeRun(runs []PageRun, r PageRun) []PageRun {
	if n := len(runs); n > 0 {
		last := &runs[n-1]
		if last.Page+uint64(last.Count) == r.Page && last.Frame+uint64(last.Count) == r.Frame &&
			last.Component == r.Component && last.Count <= 1<<31-r.Count {
			last.Count += r.Count
			return runs
		}
	}
	return append(runs, r)
}

// mergeFrames appends a run, or makes the last one longer.
func mergeFrames(runs []FrameRun, r FrameRun) []FrameRun {
	if n := len(runs); n > 0 {
		last := &runs[n-1]
		if last.First+uint64(last.Count) == r.First && last.Mapped == r.Mapped && last.Flags == r.Flags && last.Count <= 1<<31-r.Count {
			last.Count += r.Count
			return runs
		}
	}
	return append(runs, r)
}
