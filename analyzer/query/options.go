package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer"
)

// A Source is a trace that can be gone through from its beginning, again and again.
type Source struct {
	// Config is for a fresh Analyzer. Seed must be that of the trace, or zero: then Run takes one.
	Config analyzer.Config
	// Play gives the inputs until a time (ns, CLOCK_MONOTONIC) to an Analyzer of that Config, and the names that come
	// later. notes say what is missing. What came before from is of no interest but for its outcome: the Analyzer may be
	// brought there in another way, and its Observer not be told.
	Play func(a *analyzer.Analyzer, from, until uint64) (notes []string, err error)
	// End is when the trace ended, ns since Config.Start.
	End uint64
}

// Options say what is looked at and what is made of it. The zero value sums up all blocks by site.
type Options struct {
	// From and To are the span, ns since Config.Start: blocks that lived in it, at least for a moment. To 0 is the end
	// of the trace. Where both are one instant, these are the blocks that live then.
	From, To uint64

	By    string // a word of Groupings; "": site
	Order string // a word of Orders; "": bytes
	Limit int    // groups or rows at most; 0: all, of rows MaxRows

	Events   bool          // the events themselves, in their order, instead of groups
	Timeline time.Duration // what lives, is born and ends in steps of this length, instead of groups; 0: none
}

const (
	// MaxRows is how many blocks or events a Result lists at most.
	MaxRows = 100_000
	// maxGroups is how many groups there are at most, before those of sites that have one name are put together.
	maxGroups = 1 << 18
	// maxBirths is how many live blocks are known with their threads and causes.
	maxBirths = 1 << 22
	// maxSteps is how many steps a timeline has at most.
	maxSteps = 100_000
)

// None is the grouping that lists single blocks.
const None = "none"

// Groupings lists the words for Options.By.
func Groupings() (out []string) {
	for _, g := range groupings {
		out = append(out, g.word)
	}
	return append(out, None)
}

// Orders lists the words for Options.Order, each from high to low but first.
func Orders() (out []string) {
	for _, o := range orders {
		out = append(out, o.word)
	}
	return out
}

// Check returns an error that says what of the options can't be.
func (o *Options) Check() error {
	switch {
	case o.By != "" && !slices.Contains(Groupings(), o.By):
		return fmt.Errorf("%q is none of %s", o.By, strings.Join(Groupings(), ", "))
	case o.Order != "" && !slices.Contains(Orders(), o.Order):
		return fmt.Errorf("%q is none of %s", o.Order, strings.Join(Orders(), ", "))
	case o.By == None && o.Order != "" && orderOf(o.Order).row == nil:
		return fmt.Errorf("single blocks are not sorted by %q, but by one of bytes, lifetime, first, last", o.Order)
	case o.Limit < 0:
		return fmt.Errorf("the number to show must not be negative")
	case o.To != 0 && o.From > o.To:
		return fmt.Errorf("the span ends before it begins")
	case o.Events && o.Timeline != 0:
		return fmt.Errorf("either the events or a timeline: both are in the order of time")
	case o.Timeline < 0 || o.Timeline != 0 && o.Timeline < time.Microsecond:
		return fmt.Errorf("a step of a timeline has at least 1µs")
	case (o.Events || o.Timeline != 0) && (o.By != "" || o.Order != ""):
		return fmt.Errorf("events and timelines are in the order of time, and have no groups")
	}
	return nil
}

// maxRows is how many blocks or events are listed.
func (o *Options) maxRows() int {
	if o.Limit == 0 {
		return MaxRows
	}
	return min(o.Limit, MaxRows)
}

// grouped reports whether the answer is groups.
func (o *Options) grouped() bool { return !o.Events && o.Timeline == 0 && o.By != None }
