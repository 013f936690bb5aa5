package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/google/pprof/profile"

	"github.com/memtrace/memtrace/analyzer/export"
)

const (
	// maxSeconds is how long a delta may be asked for.
	maxSeconds = 300
	// maxProfiles is how many profiles are made at a time; more get a 503.
	maxProfiles = 10
	// maxDeltas is how many deltas are under way at a time; more get a 503.
	maxDeltas = 50
)

// pprofPath is where a service's profile is, by ?service=NAME.
const pprofPath = "/debug/pprof/allocs"

// servePprof answers with a service's growth by call stack as a profile: alloc_* are pages that a stack was the first to
// touch, inuse_* those that are there. DurationNanos is 0 unless ?seconds= asks for what is new in that time: Parca
// tells the two kinds of profile by it.
func (a *Agent) servePprof(w http.ResponseWriter, r *http.Request) {
	x := a.watchOf(w, r.FormValue("service"))
	if x == nil {
		return
	}
	q, err := questionOf(r)
	if err != nil {
		a.refuse(w, r, x, http.StatusBadRequest, err.Error())
		return
	}
	// Deltas and recordings may take longer than other answers.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(q.takes() + 2*scrapeTimeout))
	out, err := a.answerTo(r.Context(), x, q)
	if err == nil && q.kind != "" {
		out, err = ofKind(out, q.kind)
	}
	a.answerProfile(w, r, x, out, err)
}

// answerProfile sends a profile, or says why there is none.
func (a *Agent) answerProfile(w http.ResponseWriter, r *http.Request, x *watch, out []byte, err error) {
	switch {
	case r.Context().Err() != nil: // who asked is gone
	case errors.Is(err, errBusy):
		a.refuse(w, r, x, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, errSpan):
		a.refuse(w, r, x, http.StatusBadRequest, err.Error())
	case errors.Is(err, errNotRecorded):
		a.refuse(w, r, x, http.StatusNotFound, err.Error())
	case err != nil:
		a.log.Printf("make a profile of %s: %v", x.service, err)
		http.Error(w, "the profile could not be made; the agent's log says why", http.StatusInternalServerError)
	default:
		a.auditRead(r, x.service)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="allocs.pb.gz"`)
		_, _ = w.Write(out) // the client may be gone
	}
}

var errBusy = errors.New("as many profiles are being made already as may be: ask later")

// slots bound how much is done at a time.
type slots chan struct{}

func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) give() { <-s }

// profileOf is a service's profile, or what is new in it after span.
func (a *Agent) profileOf(ctx context.Context, x *watch, span time.Duration) ([]byte, error) {
	if span > 0 {
		return a.deltaOf(ctx, x, span)
	}
	if !a.profiles.take() {
		return nil, errBusy
	}
	defer a.profiles.give()
	return encoded(a.profile(x))
}

// deltaOf is what a service's profile has more after span than before, as net/http/pprof makes it. It waits its turn
// to make one, but takes nobody's while it waits for the time to pass. Until then it keeps the first one as bytes,
// which are few.
func (a *Agent) deltaOf(ctx context.Context, x *watch, span time.Duration) ([]byte, error) {
	if !a.deltas.take() {
		return nil, errBusy
	}
	defer a.deltas.give()
	before, err := a.inTurn(ctx, func() (*profile.Profile, error) { return a.profile(x) })
	if err != nil {
		return nil, err
	}
	began, timer := time.Now(), time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return a.inTurn(ctx, func() (*profile.Profile, error) { return a.newSince(x, before, began) })
}

// inTurn makes a profile once there are few enough being made.
func (a *Agent) inTurn(ctx context.Context, produce func() (*profile.Profile, error)) ([]byte, error) {
	select {
	case a.profiles <- struct{}{}:
		defer a.profiles.give()
		return encoded(produce())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func encoded(p *profile.Profile, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = p.Write(&b)
	return b.Bytes(), err
}

// newSince is what a service's profile has more than an earlier one.
func (a *Agent) newSince(x *watch, earlier []byte, began time.Time) (*profile.Profile, error) {
	before, err := profile.ParseData(earlier)
	if err != nil {
		return nil, err
	}
	after, err := a.profile(x)
	if err != nil {
		return nil, err
	}
	before.Scale(-1)
	both, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		return nil, err
	}
	both.TimeNanos, both.DurationNanos = after.TimeNanos, time.Since(began).Nanoseconds()
	return both, nil
}

// goTypes is how many sample types Go's own profiles of memory have: the first of export's, in their order. Of a service
// there is nothing to say by the others.
const goTypes = 4

// profile is what a service's ledger says.
func (a *Agent) profile(x *watch) (*profile.Profile, error) {
	var b bytes.Buffer
	if err := export.Write(&b, x.ledger.report(x.service), export.Options{Format: export.Pprof, Version: a.opt.Version, Made: time.Now()}); err != nil {
		return nil, err
	}
	p, err := profile.ParseData(b.Bytes())
	if err != nil {
		return nil, err
	}
	ofService(p)
	return p, nil
}

// ofService leaves in a profile what can be said of a service. Its labels are one process's, and a service has many.
func ofService(p *profile.Profile) {
	p.SampleType = p.SampleType[:goTypes]
	for _, s := range p.Sample {
		s.Value, s.Label, s.NumLabel, s.NumUnit = s.Value[:goTypes], nil, nil, nil
	}
}

// target is an entry of Prometheus' HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// serveDiscovery lists the services that have profiles, for scrapers of profiles: the parameter service tells them apart.
func (a *Agent) serveDiscovery(w http.ResponseWriter, r *http.Request) {
	all, _ := a.watches.list()
	out := make([]target, 0, len(all))
	for _, x := range all {
		out = append(out, target{[]string{r.Host}, map[string]string{"__param_service": x.service, "service_name": x.service}})
	}
	writeJSON(w, out)
}

// serveGrowth says what a service's growth belongs to, as JSON.
func (a *Agent) serveGrowth(w http.ResponseWriter, r *http.Request) {
	x := a.watchOf(w, r.PathValue("name"))
	if x == nil {
		return
	}
	a.auditRead(r, x.service)
	top, rest := x.ledger.sites(maxSiteMetrics)
	if top == nil {
		top = []Site{}
	}
	writeJSON(w, struct {
		Watch WatchState `json:"watch"`
		Sites []Site     `json:"sites"`
		// Rest are the sums of all further sites.
		RestGrown   uint64 `json:"rest_grown"`
		RestTouched uint64 `json:"rest_touched"`
	}{x.State(), top, rest.Grown, rest.Touched})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// watchOf is a service's watch. Where there is none, it answers so.
func (a *Agent) watchOf(w http.ResponseWriter, service string) *watch {
	x := a.watches.of(service)
	if x == nil {
		const text = "no such service, or its growth isn't watched: give its rule growth: true; /http_sd lists those that are"
		http.Error(w, text, http.StatusNotFound)
	}
	return x
}

// refuse answers that what is known of a service is not given now.
func (a *Agent) refuse(w http.ResponseWriter, r *http.Request, x *watch, status int, why string) {
	e := a.reader(r, x.service)
	e.What, e.Why = auditReadRefused, why
	a.audit.read(e)
	http.Error(w, why, status)
}

// auditRead notes who reads what is known of a service.
func (a *Agent) auditRead(r *http.Request, service string) {
	e := a.reader(r, service)
	e.What = auditRead
	a.audit.read(e)
}

// reader says who asks, and for what.
func (a *Agent) reader(r *http.Request, service string) auditEntry {
	e := auditEntry{Service: service, Path: r.URL.Path}
	e.From, _, _ = net.SplitHostPort(r.RemoteAddr)
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		e.By = printable(r.TLS.VerifiedChains[0][0].Subject.CommonName)
	}
	if user, _, ok := r.BasicAuth(); ok {
		if asksFor(a.webConfig).users { // else nobody has checked the password
			e.By = printable(user)
		}
	}
	return e
}
