package agent

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// known has an agent watch a service whose ledger has one Feed, without a tracer.
func known(t *testing.T, a *Agent, service string, f *Feed) *watch {
	t.Helper()
	x := &watch{service: service, config: a.config.Load, history: opened(t), audit: a.audit, log: a.log, ledger: newLedger(), stop: func() {}, done: make(chan struct{})}
	close(x.done)
	booked(t, x.ledger, f)
	a.watches.mu.Lock()
	defer a.watches.mu.Unlock()
	a.watches.all[service] = x
	return x
}

// valueIn sums a sample type over a profile.
func valueIn(t *testing.T, body, name string) (sum int64) {
	t.Helper()
	p, err := profile.ParseData([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range p.SampleType {
		for _, sample := range p.Sample {
			if s.Type == name {
				sum += sample.Value[i]
			}
		}
	}
	return sum
}

// A service's profile has what its ledger has, whatever the service is called; a delta has a duration.
func TestProfiles(t *testing.T) {
	a, address, _ := running(t, "interval: 1h")
	const name = "a b/c?&ü"
	known(t, a, name, told([]string{"leak", "cache"},
		StackFigures{Stack: 0, LiveBytes: 8192, LiveCount: 2, TouchedBytes: 12288, TouchedCount: 3}, StackFigures{Stack: 1, LiveBytes: 4096, LiveCount: 1, TouchedBytes: 4096, TouchedCount: 1}))
	query := address + pprofPath + "?service=" + url.QueryEscape(name)
	status, body, _ := get(t, query, "")
	for kind, want := range map[string]int64{"alloc_space": 16384, "alloc_objects": 4, "inuse_space": 12288, "inuse_objects": 3} {
		if got := valueIn(t, body, kind); status != 200 || got != want {
			t.Errorf("%d, %s is %d, want %d", status, kind, got, want)
		}
	}
	if _, body, _ := get(t, query+"&seconds=1", ""); len(body) == 0 {
		t.Error("no profile")
	} else if p, err := profile.ParseData([]byte(body)); err != nil || p.DurationNanos < 1e9 || len(p.Sample) != 0 {
		t.Errorf("nothing came, and the delta is %v, %v", p, err)
	}
	for query, want := range map[string]int{
		pprofPath: 404, pprofPath + "?service=x": 404, pprofPath + "?service=" + url.QueryEscape(name) + "&seconds=301": 400,
		pprofPath + "?service=" + url.QueryEscape(name) + "&seconds=-1": 400, pprofPath + "?service=" + url.QueryEscape(name) + "&seconds=x": 400,
		"/services/x/growth": 404, "/services/x/recordings": 404, "/services/" + url.PathEscape(name) + "/growth": 200, "/services/" + url.PathEscape(name) + "/recordings": 200,
	} {
		if status, _, _ := get(t, address+query, ""); status != want {
			t.Errorf("%s: %d, want %d", query, status, want)
		}
	}
}

// A delta is what the second profile has more than the first; what went is below zero.
func TestDelta(t *testing.T) {
	a, _, _ := running(t, "interval: 1h")
	x := known(t, a, "x", told([]string{"leak", "cache"}, StackFigures{Stack: 0, LiveBytes: 4096, LiveCount: 1, TouchedBytes: 4096, TouchedCount: 1},
		StackFigures{Stack: 1, LiveBytes: 4096, LiveCount: 1, TouchedBytes: 4096, TouchedCount: 1}))
	before, err := a.profile(x)
	if err != nil {
		t.Fatal(err)
	}
	booked(t, x.ledger, told(nil, StackFigures{Stack: 0, LiveBytes: 12288, LiveCount: 3, TouchedBytes: 12288, TouchedCount: 3}, StackFigures{Stack: 1, TouchedBytes: 4096, TouchedCount: 1}))
	p, err := a.newSince(t.Context(), x, before, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, s := range p.Sample {
		got[s.Location[0].Line[0].Function.Name] = s.Value[3]
	}
	if len(got) != 2 || got["leak"] != 8192 || got["cache"] != -4096 {
		t.Errorf("in use %v", got)
	}
}

// The list of targets is whole, JSON, and `[]` where there are none.
func TestDiscovery(t *testing.T) {
	a, address, _ := running(t, "interval: 1h")
	status, body, header := get(t, address+"/http_sd", "")
	if status != 200 || strings.TrimSpace(body) != "[]" || header.Get("Content-Type") != "application/json" {
		t.Errorf("%d, %q, %v", status, body, header)
	}
	known(t, a, "x", &Feed{})
	var targets []target
	if _, body, _ := get(t, address+"/http_sd", ""); json.Unmarshal([]byte(body), &targets) != nil || len(targets) != 1 ||
		"http://"+targets[0].Targets[0] != address || targets[0].Labels["__param_service"] != "x" || targets[0].Labels["service_name"] != "x" {
		t.Errorf("%s", body)
	}
}
