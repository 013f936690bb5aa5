package procfs

// Outcome says what became of reading a figure, so that a figure which could
// not be read is never taken for zero.
type Outcome uint8

const (
	// NotRead: nobody asked for the figure.
	NotRead Outcome = iota
	// Known: the figure is what the kernel says.
	Known
	// NoMemory: there is nothing to measure, as in a kernel thread and a
	// zombie. The figure is zero, truly.
	NoMemory
	// NoPermission: the kernel refused. The figure is not known.
	NoPermission
	// Gone: the process or the group ended before the figure could be read.
	Gone
	// NotSupported: this kernel, or its configuration, doesn't have the figure.
	NotSupported
	// Deferred: reading it would have stalled the target for longer than the
	// budget allows. The figure is not known.
	Deferred
	// Failed: something else went wrong. The figure is not known.
	Failed
)

var outcomeNames = [...]string{"not read", "known", "no memory", "no permission", "gone", "not on this kernel", "over the stall budget", "failed"}

// String returns it in words, such as "no permission".
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "failed"
}

// Ok reports whether the figure may be used: it was read, or is truly zero.
func (o Outcome) Ok() bool { return o == Known || o == NoMemory }
