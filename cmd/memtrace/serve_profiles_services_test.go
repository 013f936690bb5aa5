//go:build integration && services

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// A profile of a time before is what the recording has of then: what had leaked by then, in both of two processes. That of a
// span is what leaked in it, and go tool pprof reads it.
func TestServeProfilesThePast(t *testing.T) {
	t.Parallel()
	const name, enough = "leaky_past", 16 << 10
	path := copyAs(t, "slow_leak", name)
	services := []*leakyService{startLeaky(t, path), startLeaky(t, path)}
	leaked := func() uint64 { return services[0].leaked(t) + services[1].leaked(t) }
	before := leaked()
	config := "interval: 1s\nservices: [{name: shop, program: " + name + ", growth: true}]\n"
	a := startGrowthAgent(t, config, filepath.Join(t.TempDir(), "data"))
	eventually(t, "both are watched", func() bool { return a.growth(t, "shop").Watch.Processes == 2 })
	grown := a.growsBy(t, "shop", enough).Grown
	at := time.Now()
	grew := leaked() - before
	a.growsBy(t, "shop", 3*grew)
	recordingHolds(t, a.recordings(t, "shop")[0].File, 2*grew)
	query := a.address + "/debug/pprof/allocs?service=shop&at=" + at.UTC().Format(time.RFC3339Nano)
	p, err := profile.ParseData([]byte(fetchText(t, query)))
	if err != nil {
		t.Fatal(err)
	}
	was, again := inUseOf(p, "remember")
	if was < grown || was > grew+2*8192 || again != 0 || p.DurationNanos != 0 || p.TimeNanos != at.UnixNano() {
		t.Errorf("in use were %d bytes, want from %d to %d; %d stacks are there again; %v", was, grown, grew, again, p)
	}
	later := time.Now()
	eventually(t, "the recording has come as far", func() bool { return a.recordings(t, "shop")[0].End.After(later) })
	a.checkSpan(t, at, later, was)
	a.end(t)
	for _, s := range services {
		s.end(t)
	}
}

// checkSpan holds the profile of a span to those of its ends: it is what one has more than the other.
func (a *growthAgent) checkSpan(t *testing.T, from, to time.Time, before uint64) {
	t.Helper()
	query := a.address + "/debug/pprof/allocs?service=shop"
	written := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	end, err := profile.ParseData([]byte(fetchText(t, query+"&at="+written(to))))
	if err != nil {
		t.Fatal(err)
	}
	after, _ := inUseOf(end, "remember")
	text := fetchText(t, query+"&kind=live&from="+written(from)+"&to="+written(to))
	span, err := profile.ParseData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var new int64
	for _, s := range span.Sample {
		for _, l := range s.Location {
			if l.Line[0].Function.Name == "remember" {
				new += s.Value[1]
			}
		}
	}
	// As the clock on the wall has it, which the query has, too.
	lasts := to.Round(0).Sub(from.Round(0)).Nanoseconds()
	if uint64(new) != after-before || after <= before || span.DurationNanos != lasts || len(span.SampleType) != 2 {
		t.Errorf("%d bytes are new in the span, and there were %d before and %d after; %v", new, before, after, span)
	}
	file := filepath.Join(t.TempDir(), "span.pb.gz")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-top", "-unit=b", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Type: inuse_space") || !strings.Contains(string(out), fmt.Sprintf("%dB", new)) {
		t.Errorf("go tool pprof: %v\n%s", err, out)
	}
}

// inUseOf is a function's inuse_space, and how many of its stacks are there more than once.
func inUseOf(p *profile.Profile, function string) (bytes uint64, again int) {
	seen := make(map[string]bool)
	for _, s := range p.Sample {
		in := func(l *profile.Location) bool {
			return slices.ContainsFunc(l.Line, func(l profile.Line) bool { return l.Function.Name == function })
		}
		if slices.ContainsFunc(s.Location, in) {
			bytes += uint64(s.Value[3])
			var stack []uint64
			for _, l := range s.Location {
				stack = append(stack, l.ID)
			}
			if key := fmt.Sprint(stack); seen[key] {
				again++
			} else {
				seen[key] = true
			}
		}
	}
	return bytes, again
}

// checkProfiles reads the profile as go tool pprof and as scrapers do.
func (a *growthAgent) checkProfiles(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "allocs.pb.gz")
	if err := os.WriteFile(file, []byte(fetchText(t, a.address+"/debug/pprof/allocs?service=shop")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"inuse_space", "alloc_space"} {
		out, err := exec.Command("go", "tool", "pprof", "-top", "-cum", "-sample_index="+kind, file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "remember") || !strings.Contains(string(out), "File: leaky_named") {
			t.Errorf("go tool pprof -sample_index=%s: %v: %s", kind, err, out)
		}
	}
	// Parca takes a profile for a delta exactly when it has a duration.
	for query, delta := range map[string]bool{"": false, "&seconds=2": true} {
		p, err := profile.ParseData([]byte(fetchText(t, a.address+"/debug/pprof/allocs?service=shop"+query)))
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		for _, s := range p.SampleType {
			types = append(types, s.Type+"/"+s.Unit)
		}
		if (p.DurationNanos != 0) != delta || fmt.Sprint(types) != "[alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes]" || *p.PeriodType != (profile.ValueType{Type: "space", Unit: "bytes"}) {
			t.Errorf("%q: duration %d, %v, period %v", query, p.DurationNanos, types, p.PeriodType)
		}
	}
	var targets []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal([]byte(fetchText(t, a.address+"/http_sd")), &targets); err != nil || len(targets) != 1 || "http://"+targets[0].Targets[0] != a.address || targets[0].Labels["__param_service"] != "shop" {
		t.Errorf("http_sd %+v, %v", targets, err)
	}
}
