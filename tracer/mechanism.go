package tracer

import (
	"errors"
	"fmt"
)

// Mechanism is how probes are attached to the target's functions.
type Mechanism string

const (
	Session    Mechanism = "uprobe_session" // 6.13
	Multi      Mechanism = "uprobe_multi"   // 6.6
	PerfCookie Mechanism = "perf_cookie"    // 5.15
	Perf       Mechanism = "perf"           // any
	NoProbes   Mechanism = "page_faults"    // no probe on any allocator: Config.Touch
)

// perThread reports whether any thread of a process will do to reach it; the
// probes end with that one, although they are the whole process's
// (perf_event_open(2)).
func (m Mechanism) perThread() bool { return m == PerfCookie || m == Perf }

// FaultSource is what page faults are seen by.
type FaultSource string

const (
	FaultKprobe        FaultSource = "kprobe"
	FaultFexit         FaultSource = "fexit"
	FaultRawTracepoint FaultSource = "raw_tracepoint"
	FaultTracepoint    FaultSource = "tracepoint"
	FaultOff           FaultSource = "off"
)

type rung[T ~string] struct {
	name T
	have Feature
}

// Ladders, best rung first.
var (
	mechanisms = []rung[Mechanism]{
		{Session, haveUprobeSession}, {Multi, haveUprobeMulti},
		{PerfCookie, haveCookie}, {Perf, haveUprobe},
	}
	faultSources = []rung[FaultSource]{
		{FaultKprobe, haveKprobe}, {FaultFexit, haveFexit},
		{FaultRawTracepoint, haveFaultRawTracepoint}, {FaultTracepoint, haveFaultTracepoint},
	}
)

// choose returns the first rung that the kernel has and allows; a kernel in
// lockdown forbids some rungs only. Any other error is the answer. Where there
// is no such rung, one that is forbidden says more than one that is missing.
func choose[T ~string](ladder []rung[T]) (T, error) {
	var last error
	for _, r := range ladder {
		err := r.have.Probe()
		switch {
		case err == nil:
			return r.name, nil
		case errors.Is(err, ErrNotPermitted):
			if !errors.Is(last, ErrNotPermitted) {
				last = err
			}
		case !errors.Is(err, ErrNotSupported):
			return "", err
		case !errors.Is(last, ErrNotPermitted):
			last = err
		}
	}
	return "", last
}

// ChooseMechanism finds how probes are attached; want forces a rung, "" or
// "auto" takes the best.
func ChooseMechanism(want Mechanism) (Mechanism, error) {
	return chooseOr(mechanisms, want)
}

// ChooseFaultSource finds what page faults are seen by. Where the kernel has
// none of them the answer is FaultOff, with an error that wraps ErrNotSupported.
func ChooseFaultSource(want FaultSource) (FaultSource, error) {
	if want == FaultOff {
		return FaultOff, nil
	}
	got, err := chooseOr(faultSources, want)
	if err != nil {
		return FaultOff, err
	}
	return got, nil
}

func chooseOr[T ~string](ladder []rung[T], want T) (T, error) {
	if want == "" || want == "auto" {
		return choose(ladder)
	}
	for _, r := range ladder {
		if r.name == want {
			return want, r.have.Probe()
		}
	}
	return "", fmt.Errorf("unknown mechanism %q", want)
}

// KnownMechanism reports whether m is "", "auto" or names a rung.
func KnownMechanism(m Mechanism) bool { return known(mechanisms, m) }

// KnownFaultSource reports whether s is "", "auto", FaultOff or names a rung.
func KnownFaultSource(s FaultSource) bool { return s == FaultOff || known(faultSources, s) }

func known[T ~string](ladder []rung[T], want T) bool {
	if want == "" || want == "auto" {
		return true
	}
	for _, r := range ladder {
		if r.name == want {
			return true
		}
	}
	return false
}

// KnownUnwinder reports whether u is "" or names a way to take stacks.
func KnownUnwinder(u Unwinder) bool {
	switch u {
	case "", UnwindAuto, UnwindDwarf, UnwindFP, UnwindNone:
		return true
	}
	return false
}
