package alert

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Trace is how a service is traced in full once an alert begins to fire for it: every allocation, for a bounded time. In
// YAML it is a time, or fields. The zero value is none: see DefaultTrace.
type Trace struct {
	For         time.Duration `yaml:"for"`          // from the attach on
	Leaks       bool          `yaml:"leaks"`        // look for leaks at the end
	MaxOverhead string        `yaml:"max_overhead"` // of the service's processor time that probes may take
	Every       time.Duration `yaml:"every"`        // a service is traced once in this time at most, whatever fires
}

// traceFields are a Trace for the parser: it has no method of its own.
type traceFields Trace

const (
	minTrace = time.Second
	maxTrace = 10 * time.Minute
	minEvery = time.Minute
	maxEvery = 7 * 24 * time.Hour
	minShare = 0.1 // per cent, as of --max-overhead
	maxShare = 1000
)

// DefaultTrace is what a Trace that says nothing means.
func DefaultTrace() Trace {
	return Trace{For: time.Minute, Leaks: true, MaxOverhead: "5%", Every: time.Hour}
}

// UnmarshalYAML takes "1m" and "{for: 1m, leaks: false}". It has the form of yaml's that keeps what the decoder knows: lines,
// and that unknown fields are errors.
func (t *Trace) UnmarshalYAML(unmarshal func(any) error) error {
	*t = DefaultTrace()
	var is any
	if err := unmarshal(&is); err != nil {
		return err
	}
	switch is.(type) {
	case map[string]any, map[any]any, []any:
		return unmarshal((*traceFields)(t))
	}
	return unmarshal(&t.For)
}

// checkTrace is Prepare of what is to be traced.
func (r *Rule) checkTrace() error {
	t := r.Trace
	switch {
	case t == nil:
		return nil
	case r.condition.Subject == "":
		return wrong("trace", "%s is about the machine, and only a service can be traced: give it to an alert about one, such as "+
			"growth(*)>1MiB/h or rss(shop)>2GiB", r.condition.Metric)
	case r.condition.Subject == SumOfOthers:
		return wrong("trace", "%s is no service, but the sum of many: name the one to trace by a rule", SumOfOthers)
	case t.For < minTrace || t.For > maxTrace:
		return wrong("trace.for", "%v is not from %v to %v", t.For, minTrace, maxTrace)
	case t.Every < minEvery || t.Every > maxEvery:
		return wrong("trace.every", "%v is not from %v to %v", t.Every, minEvery, maxEvery)
	}
	text, percent := strings.CutSuffix(t.MaxOverhead, "%")
	share, err := strconv.ParseFloat(text, 64)
	if !percent || err != nil || math.IsNaN(share) || share < minShare || share > maxShare {
		return wrong("trace.max_overhead", "%q is no share from 0.1%% to 1000%%, such as 5%%", t.MaxOverhead)
	}
	return nil
}

// SumOfOthers is the service of all processes that have none of their own.
const SumOfOthers = "other"

// Traces reports whether a service may be traced as the alert fires.
func (r *Rule) Traces(service string) bool {
	return r.Trace != nil && service != "" && service != SumOfOthers && r.covers(service)
}

// Key tells the alert from those that mean something else, also after another configuration was read.
func (r *Rule) Key() string { return r.key() }
