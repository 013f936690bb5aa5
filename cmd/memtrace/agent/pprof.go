package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	"github.com/memtrace/memtrace/analyzer/export"
)

const (
	// maxSeconds is how long a delta may be asked for.
	maxSeconds = 300
	// maxProfiles is how many profiles are made at a time; more get a 503.
	maxProfiles = 10
)

// pprofPath is where a service's profile is, by ?service=NAME.
const pprofPath = "/debug/pprof/allocs"

// servePprof answers with a service's growth by call stack as a profile: alloc_* are pages that a stack was the first to
// touch, inuse_* those that are there. DurationNanos is 0 unless ?seconds= asks for what is new in that time: Parca
// tells the two kinds of profile by it.
func (a *Agent) servePprof(w http.ResponseWriter, r *http.Request) {
	x := a.watches.of(r.FormValue("service"))
	if x == nil {
		http.Error(w, "no such service, or its rule doesn't say growth: true; /http_sd lists those that have profiles", http.StatusNotFound)
		return
	}
	span, ok := secondsOf(r)
	if !ok {
		http.Error(w, fmt.Sprintf("seconds is to be a whole number up to %d", maxSeconds), http.StatusBadRequest)
		return
	}
	select {
	case a.profiles <- struct{}{}:
		defer func() { <-a.profiles }()
	default:
		http.Error(w, fmt.Sprintf("%d profiles are being made already: ask later", maxProfiles), http.StatusServiceUnavailable)
		return
	}
	a.auditRead(r, x.service)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(span + 2*scrapeTimeout))
	out, err := a.profileOf(r.Context(), x, span)
	if r.Context().Err() != nil {
		return // who asked is gone
	}
	if err != nil {
		a.log.Printf("make a profile of %s: %v", x.service, err)
		http.Error(w, "the profile could not be made; the agent's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="allocs.pb.gz"`)
	_, _ = w.Write(out) // the client may be gone
}

// secondsOf reads ?seconds=; 0: there is none.
func secondsOf(r *http.Request) (time.Duration, bool) {
	text := r.FormValue("seconds")
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	return time.Duration(n) * time.Second, err == nil && n >= 0 && n <= maxSeconds
}

// profileOf is a service's profile, or what is new in it after span.
func (a *Agent) profileOf(ctx context.Context, x *watch, span time.Duration) ([]byte, error) {
	p, err := a.profile(x)
	if err == nil && span > 0 {
		p, err = a.newSince(ctx, x, p, span)
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = p.Write(&b)
	return b.Bytes(), err
}

// newSince is what a service's profile has more after span than before, as net/http/pprof makes it.
func (a *Agent) newSince(ctx context.Context, x *watch, before *profile.Profile, span time.Duration) (*profile.Profile, error) {
	began := time.Now()
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
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
	p.SampleType = p.SampleType[:goTypes]
	for _, s := range p.Sample {
		s.Value, s.Label = s.Value[:goTypes], nil // the label is one process, and a service has many
	}
	return p, nil
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
	x := a.watches.of(r.PathValue("name"))
	if x == nil {
		http.Error(w, "no such service, or its rule doesn't say growth: true", http.StatusNotFound)
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

// serveRecordings lists a service's recordings. They are read where they are: this would give them to everybody who reaches
// the agent, and they can be read by its user alone.
func (a *Agent) serveRecordings(w http.ResponseWriter, r *http.Request) {
	x := a.watches.of(r.PathValue("name"))
	if x == nil {
		http.Error(w, "no such service, or its rule doesn't say growth: true", http.StatusNotFound)
		return
	}
	a.auditRead(r, x.service)
	all, err := x.history.segments(x.service)
	if err != nil {
		a.log.Printf("%v", err)
		http.Error(w, "the recordings can't be listed; the agent's log says why", http.StatusInternalServerError)
		return
	}
	if all == nil {
		all = []Segment{}
	}
	writeJSON(w, all)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// auditRead notes who reads what is known of a service.
func (a *Agent) auditRead(r *http.Request, service string) {
	e := auditEntry{Service: service, Path: r.URL.Path}
	e.From, _, _ = net.SplitHostPort(r.RemoteAddr)
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		e.By = printable(r.TLS.VerifiedChains[0][0].Subject.CommonName)
	}
	if user, _, ok := r.BasicAuth(); ok {
		if _, users := asksFor(a.config.Load().WebConfig); users { // else nobody has checked the password
			e.By = printable(user)
		}
	}
	a.audit.read(e)
}
