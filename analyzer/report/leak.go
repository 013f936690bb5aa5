package report

// Leak is a verdict (definite, indirect, possible) or a candidate (growing, old).
type Leak struct {
	Site       int     `json:"site"`    // Site.ID
	Process    int     `json:"process"` // Process.ID
	PID        int     `json:"pid"`
	Kind       string  `json:"kind"`
	Bytes      uint64  `json:"bytes"`
	Count      uint64  `json:"count"`
	Confidence float64 `json:"confidence"` // 0 to 1
	Why        string  `json:"why"`

	// Doubtful says that the blocks may have been freed, as events were lost while they lived.
	Doubtful bool `json:"doubtful,omitempty"`

	// Pages says where those bytes are; nil where that was not read.
	Pages *LeakPages `json:"pages,omitempty"`
	// OldestNS and NewestNS are the ages of the first and the last of the
	// leaked blocks at the Report; of candidates only the former is known.
	OldestNS uint64 `json:"oldest_ns"`
	NewestNS uint64 `json:"newest_ns,omitempty"`
	// Growing says that the live bytes of the site keep rising, at about
	// GrowthPerSecond (bytes, the median slope).
	Growing         bool   `json:"growing"`
	GrowthPerSecond uint64 `json:"growth_bytes_per_s,omitempty"`
	WarmUpBytes     uint64 `json:"warm_up_bytes,omitempty"` // of Bytes: allocated during the warm-up

	// Estimate says how near Bytes and Count are; nil where they are exact.
	Estimate *LeakEstimate `json:"estimate,omitempty"`

	// Fingerprint names the leak from one run to the next: it depends on the
	// functions of the stack, not on lines, addresses or processes.
	Fingerprint string `json:"fingerprint"`
	Known       bool   `json:"known,omitempty"` // the baseline has it

	// SeenBytes are those of the blocks themselves: less than Bytes where they stand
	// for others. It is 0 in a Report that was read from JSON.
	SeenBytes uint64 `json:"-"`

	// Samples are what some of the blocks begin with, the most common first;
	// only of processes that were not traced.
	Samples []LeakSample `json:"samples,omitempty"`
}

// LeakEstimate are the standard errors of a leak that was found by a sample.
// That its blocks leaked is no estimate.
type LeakEstimate struct {
	Samples uint64 `json:"samples"` // leaked blocks that the figures come from, and that stand for others
	BytesSE uint64 `json:"bytes_se"`
	CountSE uint64 `json:"count_se"`
}

// LeakSample is what some leaked blocks begin with.
type LeakSample struct {
	Text    string `json:"text"`    // quoted text, or words in hexadecimal
	Count   uint64 `json:"count"`   // of the blocks that were looked at
	Address string `json:"address"` // of one of them
}

// LeakPages says where a leak's bytes are; what is missing to its sum lies in
// memory whose pages could not be looked at.
type LeakPages struct {
	Resident  uint64 `json:"resident_bytes"`
	Untouched uint64 `json:"untouched_bytes"`
	Swapped   uint64 `json:"swapped_bytes"`
}

// IsVerdict tells a kind that a scan of the memory gives from a candidate,
// which lifetimes alone give.
func IsVerdict(kind string) bool {
	return kind == "definite" || kind == "indirect" || kind == "possible"
}

// LeakKinds are all kinds of leaks, the worst first.
func LeakKinds() []string { return []string{"definite", "indirect", "possible", "growing", "old"} }

// Outcome is what became of the conditions that a job set (--fail-on).
type Outcome struct {
	Failed bool       `json:"failed"` // a condition was met
	Rules  []RuleDone `json:"rules"`  // in the order in which they were given
	// Problems say why the check could not be made, or not be relied on. With
	// any, the job fails, whatever the rules say.
	Problems   []string  `json:"problems"`
	Suppressed LeakSum   `json:"suppressed"`          // left out of Leaks
	Unused     []string  `json:"unused_suppressions"` // matched nothing
	Known      LeakSum   `json:"known"`               // the baseline has them
	Gone       []OldLeak `json:"gone"`                // of the baseline, not found any more
}

// How a rule ended.
const (
	RulePassed  = "passed"
	RuleFailed  = "failed"
	RuleUnknown = "unknown" // it could not be decided: see Outcome.Problems
)

// RuleDone is one condition and how it ended.
type RuleDone struct {
	Rule   string `json:"rule"` // as it was given: "definite", "leak>1MB"
	Status string `json:"status"`
	Figure string `json:"figure"` // what was found, in words: "1.20 KiB in 3 blocks"
	Leaks  []int  `json:"leaks"`  // those that made it fail, as indexes into Report.Leaks
}

// LeakSum counts leaked blocks.
type LeakSum struct {
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// Add counts a leak.
func (s *LeakSum) Add(l *Leak) {
	s.Count += l.Count
	s.Bytes += l.Bytes
}

// OldLeak is a leak of a baseline.
type OldLeak struct {
	Fingerprint string `json:"fingerprint"`
	Kind        string `json:"kind"`
	Function    string `json:"function"`
	Bytes       uint64 `json:"bytes"`
	Count       uint64 `json:"count"`
}
