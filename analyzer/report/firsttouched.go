package report

// FirstTouched is what processes have grown by while the allocator had no probes, to keep within a limit on the
// overhead (Overhead: the spans of mode none): a page that somebody touched first in such a span belongs to the stack that
// did. Who asked an allocator for the memory is not known, and nothing of it is in Sites or in any Heap.
type FirstTouched struct {
	Bytes        uint64 `json:"bytes"` // still there at the last reading, those that are swapped out included
	Count        uint64 `json:"count"` // pages
	TouchedBytes uint64 `json:"touched_bytes"`
	TouchedCount uint64 `json:"touched_count"` // times that a page became a site's own
	PagesLost    uint64 `json:"pages_lost"`    // touches that there was no room for
	// ChildTouches are touches by children that are not listed one by one (Process.Children): by whom and what is left
	// of them is not known, and they are in none of the sums above.
	ChildTouches uint64 `json:"child_touches,omitempty"`

	Sites     []TouchedSite `json:"sites"` // the largest first
	SitesMore int           `json:"sites_omitted"`
}

// TouchedSite is a call stack that has touched pages first.
type TouchedSite struct {
	ID            int      `json:"id"`      // among such sites alone
	Process       int      `json:"process"` // Process.ID
	PID           int      `json:"pid"`
	Function      string   `json:"function"` // as of Site
	FunctionFrame int      `json:"function_frame"`
	Stack         []*Frame `json:"stack"` // innermost first, inlined frames included
	Truncated     bool     `json:"truncated"`
	FramePointers bool     `json:"frame_pointers"` // see Site
	Bytes         uint64   `json:"bytes"`          // as of FirstTouched
	Count         uint64   `json:"count"`
	TouchedBytes  uint64   `json:"touched_bytes"`
	TouchedCount  uint64   `json:"touched_count"`
}
