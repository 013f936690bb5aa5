package watch

import (
	"errors"
	"fmt"
	"time"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

// State is what is known of a condition.
type State uint8

const (
	// Within: the figure is within its limit. Every condition begins so.
	Within State = iota
	// Crossed: it was crossed, and is not back by the margin yet.
	Crossed
	// Unknown: the figure cannot be read.
	Unknown
)

var stateWords = [...]string{"within", "crossed", "unknown"}

// String returns it in a word, such as "crossed".
func (s State) String() string { return stateWords[s] }

// Event is a change of a condition's state.
type Event struct {
	Time      time.Time
	Condition string // as it was written
	State     State  // the new one
	Figure    float64
	Limit     float64
	Unit      Unit  // of Figure and Limit
	Err       error // where the State is Unknown
	Was       State // the one before
	// Crossing: the limit has just been crossed. Otherwise a figure that is
	// Crossed was so before, and only unknown in between.
	Crossing bool
}

// Options of a Watch.
type Options struct {
	// Hysteresis is by which part of its limit a figure has to be back before
	// it counts as within it: 0.05 for 5 %.
	Hysteresis float64
	// StallBudget is for how long of each second a process's mmap lock may be
	// held to read its PSS, USS and swap; a figure is kept that long. 0: no limit.
	StallBudget time.Duration
	Proc, Sys   string // where proc and sysfs are mounted; /proc and /sys if empty
	Cgroup      string // where control groups are; fs/cgroup in Sys if empty
}

// UsageError is an error about a condition itself, such as a figure that there
// is not.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

func usageError(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// Watch checks conditions, again and again.
type Watch struct {
	opt        Options
	source     *source
	conditions []*condition
}

// condition is one condition and what is known of it.
type condition struct {
	threshold.Condition
	figure  figure
	over    bool // by the last figure that could be read
	unknown bool // it cannot be read at present
}

func (c *condition) state() State {
	switch {
	case c.unknown:
		return Unknown
	case c.over:
		return Crossed
	}
	return Within
}

// New prepares to check conditions. The caller closes the Watch.
func New(conditions []threshold.Condition, opt Options) (*Watch, error) {
	src, err := openSource(opt)
	if err != nil {
		return nil, err
	}
	w := &Watch{opt: opt, source: src}
	for _, c := range conditions {
		f, err := resolve(c, src)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("condition %q: %w", c, err), src.close())
		}
		w.conditions = append(w.conditions, &condition{Condition: c, figure: f})
	}
	return w, nil
}

// Close lets go of the processes.
func (w *Watch) Close() error { return w.source.close() }

// Check reads the figures, and returns the conditions whose state changed.
func (w *Watch) Check(now time.Time) []Event {
	w.source.begin(now)
	var events []Event
	for _, c := range w.conditions {
		if e, changed := c.check(w.source, w.opt.Hysteresis); changed {
			e.Time = now
			events = append(events, e)
		}
	}
	return events
}

// Unknown lists the conditions whose figures cannot be read at present.
func (w *Watch) Unknown() []string {
	var out []string
	for _, c := range w.conditions {
		if c.unknown {
			out = append(out, c.String())
		}
	}
	return out
}

// check reads the figure and moves to the state that follows.
func (c *condition) check(src *source, hysteresis float64) (Event, bool) {
	was, wasOver := c.state(), c.over
	r, err := c.figure.read(src)
	c.unknown = err != nil
	if err == nil {
		c.over = c.isOver(r, hysteresis)
	}
	e := Event{
		Condition: c.String(), State: c.state(), Figure: r.value, Limit: r.limit, Unit: r.unit, Err: err,
		Was: was, Crossing: c.over && !wasOver,
	}
	return e, e.State != e.Was
}

// isOver: what is crossed stays so until the figure is back by the margin.
func (c *condition) isOver(r reading, hysteresis float64) bool {
	margin := r.limit * hysteresis
	switch {
	case !c.over:
		margin = 0
	case c.Op.Falling():
		margin = -margin
	}
	return c.Compare(r.value, r.limit-margin)
}
