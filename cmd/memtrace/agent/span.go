package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/pprof/profile"
)

const (
	// maxSpanned is how many recordings a profile of a span is made of.
	maxSpanned = 16
	// spanPatience is how long that may take.
	spanPatience = 5 * time.Minute
	// segmentStart is how long after the time in its name a recording may begin.
	segmentStart = 2 * time.Second
)

var errSpan = fmt.Errorf("the span is made of more than %d recordings: ask for a shorter one", maxSpanned)

// piece is the part of a recording that a span has. A zero time is the recording's beginning, or its end.
type piece struct {
	file     string
	from, to time.Time
	lasts    time.Duration
}

// pieces are what a service's recordings have of a span, which begins and ends within what they hold. to may be zero.
func (h *history) pieces(service string, from, to time.Time) ([]piece, error) {
	all, err := h.segments(service)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 || from.Before(all[0].Begin) || !from.Before(all[len(all)-1].End) || to.After(all[len(all)-1].End) {
		return nil, notRecorded(all)
	}
	var out []piece
	for _, s := range all {
		if !s.End.After(from) || !to.IsZero() && !s.Begin.Before(to) {
			continue
		}
		p, begin, end := piece{file: s.File}, s.Begin, s.End
		if from.Sub(s.Begin) > segmentStart {
			p.from, begin = from, from
		}
		if !to.IsZero() && to.Before(s.End) {
			p.to, end = to, to
		}
		p.lasts = end.Sub(begin)
		out = append(out, p)
	}
	switch {
	case len(out) == 0:
		return nil, notRecorded(all)
	case len(out) > maxSpanned:
		return nil, errSpan
	}
	return out, nil
}

// spanOf is what a service's profile had more at the end of a span than at its beginning, by all recordings of it. Nobody
// knows what became of a recording's pages after its end: what was freed then is not taken off.
func (a *Agent) spanOf(ctx context.Context, x *watch, from, to time.Time) ([]byte, error) {
	pieces, err := x.history.pieces(x.service, from, to)
	if err != nil {
		return nil, err
	}
	if !a.pasts.take() {
		return nil, errBusy
	}
	defer a.pasts.give()
	ctx, cancel := context.WithTimeout(ctx, spanPatience)
	defer cancel()
	var sum *profile.Profile
	var lasts time.Duration
	for _, p := range pieces {
		more, err := a.newIn(ctx, x.service, p)
		if err != nil {
			return nil, err
		}
		lasts += p.lasts
		if sum == nil {
			sum = more
			continue
		}
		at := more.TimeNanos
		if sum, err = profile.Merge([]*profile.Profile{sum, more}); err != nil {
			return nil, err
		}
		sum.TimeNanos = at
	}
	sum.DurationNanos = lasts.Nanoseconds()
	sum.Comments = append(sum.Comments, fmt.Sprintf("%v of the span are recorded, in %d recordings", lasts.Round(time.Second), len(pieces)))
	return encoded(sum, nil)
}

// newIn is what a piece of a recording has more at its end.
func (a *Agent) newIn(ctx context.Context, service string, p piece) (*profile.Profile, error) {
	after, err := a.recorded(ctx, service, p.file, p.to)
	if err != nil || p.from.IsZero() {
		return after, err
	}
	before, err := a.recorded(ctx, service, p.file, p.from)
	if err != nil {
		return nil, err
	}
	before.Scale(-1)
	both, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		return nil, errors.Join(errors.New("take the beginning of a span off its end"), err)
	}
	both.TimeNanos = after.TimeNanos
	return both, nil
}
