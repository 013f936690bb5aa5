package report

// Runtime says what a language's runtime uses a process's memory for. The resident bytes of Parts and RestBytes add up to
// RSSBy.AnonMmap.
type Runtime struct {
	Name    string        `json:"name"`              // java, v8; empty where a Problem says so
	Version string        `json:"version,omitempty"` // as it says itself
	Parts   []RuntimePart `json:"parts"`             // the largest first
	// RestBytes are those of RSSBy.AnonMmap that are in no part.
	RestBytes uint64 `json:"rest_bytes"`
	Problem   string `json:"problem,omitempty"` // why Parts is empty, or not all
	Hint      string `json:"hint,omitempty"`    // what would tell more
}

// RuntimePart is what a runtime uses for one thing.
type RuntimePart struct {
	Name          string `json:"name"`         // such as "Java heap"
	MappedBytes   uint64 `json:"mapped_bytes"` // that can be accessed: the JVM's word is "committed"
	ResidentBytes uint64 `json:"resident_bytes"`
	SwappedBytes  uint64 `json:"swapped_bytes"`
}
