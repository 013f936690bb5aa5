package report

// FreeWalk says what is known of the blocks of a process that has no probe on
// free (--probes allocs). The allocator's own records tell which are gone: live
// bytes and counts are exact for the blocks from before the last walk, as of
// that, but for Unsure.
type FreeWalk struct {
	Walks    uint64 `json:"walks"`     // of the heap so far
	WalkedNS uint64 `json:"walked_ns"` // since the attach: when the last one began; 0: there was none
	TookNS   uint64 `json:"took_ns"`   // that one, of a processor's time
	Still    bool   `json:"still"`     // nothing ran meanwhile: its figures are those of one instant
	Freed    uint64 `json:"freed"`     // blocks that walks have found gone; others, that their address was handed out again
	// Newer are live blocks from after the last walk: each may be gone.
	NewerCount uint64 `json:"newer_count"`
	NewerBytes uint64 `json:"newer_bytes"`
	// Unsure are live blocks of which the last walk could not tell.
	UnsureCount uint64 `json:"unsure_count"`
	UnsureBytes uint64 `json:"unsure_bytes"`
	// SeenSinceNS: free has a probe since then, as the heap turned out not to be readable, and blocks from before are in doubt; 0: it has none.
	SeenSinceNS uint64 `json:"seen_since_ns,omitempty"`
	// Inexact names the fields of Heap and Site, of this process, that are not exact: see docs/probes-allocs.md.
	Inexact []string `json:"inexact"`
}

// Doubtful are the live blocks that may be gone.
func (f *FreeWalk) Doubtful() (count, bytes uint64) {
	return f.NewerCount + f.UnsureCount, f.NewerBytes + f.UnsureBytes
}

// InexactWithoutFrees names the fields of Heap and Site that are not exact where frees are not seen.
func InexactWithoutFrees() []string {
	return []string{"peak_bytes", "peak_at_ns", "peak_live_bytes", "temporary_count", "faults"}
}

// UnseenFrees reports whether some process has no probe on free.
func (r *Report) UnseenFrees() bool {
	for i := range r.Processes {
		if f := r.Processes[i].FreeWalk; f != nil {
			return true
		}
	}
	return false
}
