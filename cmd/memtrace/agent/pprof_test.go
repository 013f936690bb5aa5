package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
		pprofPath + "?service=" + url.QueryEscape(name) + "&at=yesterday":                                      400,
		pprofPath + "?service=" + url.QueryEscape(name) + "&at=2026-11-27T10:00:00Z":                           404,
		pprofPath + "?service=" + url.QueryEscape(name) + "&at=2026-11-27T10:00:00Z&seconds=1":                 400,
		pprofPath + "?service=" + url.QueryEscape(name) + "&from=2026-11-27T10:00:00Z":                         404,
		pprofPath + "?service=" + url.QueryEscape(name) + "&from=x":                                            400,
		pprofPath + "?service=" + url.QueryEscape(name) + "&to=2026-11-27T10:00:00Z":                           400,
		pprofPath + "?service=" + url.QueryEscape(name) + "&from=2026-11-27T10:00:00Z&to=2026-11-27T10:00:00Z": 400,
		pprofPath + "?service=" + url.QueryEscape(name) + "&from=2026-11-27T10:00:00Z&at=2026-11-27T10:00:00Z": 400,
		pprofPath + "?service=" + url.QueryEscape(name) + "&kind=leaked":                                       400,
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
	before, err := encoded(a.profile(x))
	if err != nil {
		t.Fatal(err)
	}
	booked(t, x.ledger, told(nil, StackFigures{Stack: 0, LiveBytes: 12288, LiveCount: 3, TouchedBytes: 12288, TouchedCount: 3}, StackFigures{Stack: 1, TouchedBytes: 4096, TouchedCount: 1}))
	p, err := a.newSince(x, before, time.Now())
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

// Deltas that wait for their time to pass keep nobody from a profile. More than there may be of either are refused.
func TestDeltasHoldNobodyUp(t *testing.T) {
	a, address, _ := running(t, "interval: 1h")
	known(t, a, "x", told([]string{"leak"}, StackFigures{LiveBytes: 4096, LiveCount: 1, TouchedBytes: 4096, TouchedCount: 1}))
	query := address + pprofPath + "?service=x"
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range maxDeltas {
		waiting.Go(func() {
			if _, err := a.profileOf(ctx, a.watches.of("x"), time.Hour); !errors.Is(err, context.Canceled) {
				t.Errorf("a delta ended: %v", err)
			}
		})
	}
	late := time.Now().Add(time.Minute)
	for ; len(a.deltas) < maxDeltas || len(a.profiles) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d deltas wait, and %d profiles are being made", len(a.deltas), len(a.profiles))
		}
	}
	for query, want := range map[string]int{query: 200, query + "&seconds=1": 503} {
		if status, body, _ := get(t, query, ""); status != want {
			t.Errorf("%s: %d, want %d: %s", query, status, want, body)
		}
	}
	cancel()
	waiting.Wait()
	for a.profiles.take() {
	}
	if status, _, _ := get(t, query, ""); status != 503 {
		t.Errorf("more profiles than there may be: %d", status)
	}
}

// One recording is read at a time, and that keeps nobody from the profile of now.
func TestOnePastAtATime(t *testing.T) {
	a, address, _ := running(t, "interval: 1h")
	x, at := known(t, a, "x", told([]string{"leak"}, StackFigures{TouchedCount: 1})), time.Now().Truncate(time.Second)
	recorded(t, x.history, "x", at, 1)
	if !a.pasts.take() || a.pasts.take() {
		t.Fatal("not one is read at a time")
	}
	query := address + pprofPath + "?service=x"
	for query, want := range map[string]int{query: 200, query + "&at=" + at.UTC().Format(time.RFC3339): 503} {
		if status, body, _ := get(t, query, ""); status != want {
			t.Errorf("%s: %d, want %d: %s", query, status, want, body)
		}
	}
}

// The audit log has a user's name where the server has checked the password, which it does by the web configuration
// that it began with, whatever one names that was read since.
func TestReadersAreNamed(t *testing.T) {
	web := filepath.Join(t.TempDir(), "web.yaml")
	const secret = "$2a$04$rl.Ms5XkF58nGvJVcKx7X.ffd2dAwFoJjy.gFCqyYX41tdhp70zei" // of the word secret, by bcrypt
	if err := os.WriteFile(web, []byte("basic_auth_users: {eve: "+secret+"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for by, configs := range map[string][2]string{
		"eve": {"interval: 1h\nweb_config: " + web, "interval: 30m"},
		"":    {"interval: 1h", "interval: 30m\nweb_config: " + web},
	} {
		a, address, reload := running(t, configs[0])
		dir := t.TempDir()
		a.audit.open(dir)
		known(t, a, "x", &Feed{})
		if err := os.WriteFile(a.opt.ConfigFile, []byte(configs[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		reload <- os.Interrupt
		reload <- os.Interrupt // taken once the first was handled
		if is := a.config.Load().Interval; is != 30*time.Minute {
			t.Fatalf("the new configuration was not read: interval %v", is)
		}
		address = strings.Replace(address, "//", "//eve:secret@", 1)
		if status, body, _ := get(t, address+"/services/x/growth", ""); status != 200 {
			t.Errorf("%d: %s", status, body)
		}
		if status, _, _ := get(t, address+pprofPath+"?service=x&seconds=much", ""); status != 400 {
			t.Errorf("%d", status)
		}
		all := entriesOf(t, filepath.Join(dir, auditFile))
		if len(all) != 2 || all[0].What != auditRead || all[0].By != by {
			t.Fatalf("%q: %+v", by, all)
		}
		if refused := all[1]; refused.What != auditReadRefused || refused.By != by || refused.Why == "" {
			t.Errorf("%q: %+v", by, refused)
		}
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
