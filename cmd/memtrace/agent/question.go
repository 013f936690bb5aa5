package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
)

// A question is what a profile is asked for. At most one of span, at and from is given.
type question struct {
	span     time.Duration // ?seconds=: what is new after it
	at       time.Time     // ?at=: as it was then
	from, to time.Time     // ?from=&to=: what was new between; to is zero for the end of what is recorded
	kind     string        // ?kind=: of bytes; "" for all
}

// kinds are the sample types of each kind of bytes that there is of a service: its objects, then its bytes.
var kinds = map[string][2]int{"allocated": {0, 1}, "live": {2, 3}}

// questionOf reads what a request asks.
func questionOf(r *http.Request) (q question, err error) {
	if q.kind = r.FormValue("kind"); q.kind != "" {
		if _, ok := kinds[q.kind]; !ok {
			return q, fmt.Errorf("of a service there are the kinds live and allocated, and no %.40q", q.kind)
		}
	}
	given := 0
	for _, name := range []string{"seconds", "at", "from"} {
		if r.FormValue(name) != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return q, errors.New("give one of seconds, at and from: what is new from now on, what was there then, or what was new since then")
	case r.FormValue("to") != "" && r.FormValue("from") == "":
		return q, errors.New("to is the end of a span: give from as well")
	}
	if seconds := r.FormValue("seconds"); seconds != "" {
		n, err := strconv.Atoi(seconds)
		if err != nil || n < 0 || n > maxSeconds {
			return q, fmt.Errorf("seconds is to be a whole number up to %d", maxSeconds)
		}
		q.span = time.Duration(n) * time.Second
	}
	for name, to := range map[string]*time.Time{"at": &q.at, "from": &q.from, "to": &q.to} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		if *to, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return q, fmt.Errorf("%s is to be a time such as 2026-11-27T10:00:00Z", name)
		}
	}
	if !q.to.IsZero() && !q.to.After(q.from) {
		return q, errors.New("to is to be later than from")
	}
	return q, nil
}

// takes is for how long an answer may take.
func (q *question) takes() time.Duration {
	switch {
	case !q.at.IsZero():
		return pastPatience
	case !q.from.IsZero():
		return spanPatience
	}
	return q.span
}

// answerTo makes the profile that is asked for.
func (a *Agent) answerTo(ctx context.Context, x *watch, q question) ([]byte, error) {
	switch {
	case !q.at.IsZero():
		return a.pastOf(ctx, x, q.at)
	case !q.from.IsZero():
		return a.spanOf(ctx, x, q.from, q.to)
	}
	return a.profileOf(ctx, x, q.span)
}

// ofKind leaves one kind of bytes in a profile.
func ofKind(text []byte, kind string) ([]byte, error) {
	p, err := profile.ParseData(text)
	if err != nil {
		return nil, err
	}
	objects, bytes := kinds[kind][0], kinds[kind][1]
	p.SampleType = []*profile.ValueType{p.SampleType[objects], p.SampleType[bytes]}
	p.DefaultSampleType = p.SampleType[1].Type
	for _, s := range p.Sample {
		s.Value = []int64{s.Value[objects], s.Value[bytes]}
	}
	return encoded(p.Compact(), nil)
}
