package gate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

func rules(t *testing.T, texts ...string) Rules {
	t.Helper()
	r, err := ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRules(t *testing.T) {
	r := rules(t, "definite, leak>1MB,rss(redis)>=200MiB", "growth>1MiB/min", "definite", "allocs>1e6")
	var words []string
	for i := range r {
		words = append(words, r[i].String())
	}
	if want := []string{"definite", "leak>1MB", "rss(redis)>=200MiB", "growth>1MiB/min", "allocs>1e6"}; !slices.Equal(words, want) {
		t.Errorf("%q, want %q", words, want)
	}
	if got := r.OverTime(); !slices.Equal(got, []string{"growth>1MiB/min", "allocs>1e6"}) || !r.NeedScan() {
		t.Errorf("over time: %q", got)
	}
	for text, want := range map[string]string{
		"": "is none of definite", "nope": "is none of definite", "definite,": "is none of definite", "nope>1": `"nope" is none of leak`,
		"rss>5s": "a size is wanted", "growth>1MiB": "a rate is wanted", "allocs>1MiB": "a number without unit", "rss<1MiB": "upper one",
		"leak(nope)>1": `"nope" is none of definite`, "leak>1XB": "unknown unit", "leak>-1": "does not begin with a number",
	} {
		if _, err := ParseRules([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// at is a Report of one process.
func at(window time.Duration, live, allocs, rss uint64) *report.Report {
	return &report.Report{
		Schema: report.Schema, WindowNS: uint64(window), Tracer: report.TracerInfo{Attach: "perf"},
		Events: report.Events{Alloc: allocs},
		Processes: []report.Process{{ID: 1, PID: 7, Comm: "service",
			Heap:  report.Heap{LiveBytes: live, AllocCount: allocs, PeakBytes: live, PeakAtNS: uint64(window)},
			Usage: report.Usage{RSS: rss, SampledNS: uint64(window)}}},
	}
}

// statuses is how the rules ended.
func statuses(o *report.Outcome) (out []string) {
	for _, r := range o.Rules {
		out = append(out, r.Status)
	}
	return out
}

func TestLimitsReadTheFiguresOfTheReport(t *testing.T) {
	for text, want := range map[string]string{
		"rss>200":           "passed", // of all Reports the greatest: 200
		"rss>199":           "failed",
		"rss>=200":          "failed",
		"rss(service)>199":  "failed",
		"rss(pid:7)>199":    "failed",
		"rss(other)>199":    "unknown",
		"allocs>30":         "passed",
		"allocs>29":         "failed",
		"heap>3000":         "passed", // the peak
		"heap>2999":         "failed",
		"growth>60000/min":  "passed", // 1000 bytes a second
		"growth>59999/min":  "failed",
		"growth>999B/s":     "failed",
		"leak>30":           "passed", // definite and indirect
		"leak>29":           "failed",
		"leak(possible)>4":  "failed",
		"leak(possible)>5":  "passed",
		"leak.blocks>3":     "passed",
		"leak.blocks>2":     "failed",
		"leak(growing)>0":   "passed",
		"pss>0":             "passed",
		"alloc.bytes>1e100": "",
	} {
		r, err := ParseRules([]string{text})
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		j := New(Options{Rules: r})
		j.Observe(at(1*time.Second, 1000, 10, 100))
		j.Observe(at(2*time.Second, 2000, 20, 200))
		last := at(3*time.Second, 3000, 30, 150)
		last.Leaks = []report.Leak{{Kind: "definite", Bytes: 20, Count: 2}, {Kind: "indirect", Bytes: 10, Count: 1}, {Kind: "possible", Bytes: 5, Count: 1}}
		o := j.Decide(last, Evidence{})
		if got := statuses(o); got[0] != want || o.Failed != (want == "failed") || (len(o.Problems) > 0) != (want == "unknown") {
			t.Errorf("%s: %q, %+v", text, got, o)
		}
	}
}

func TestGrowthIsNotAPeak(t *testing.T) {
	j := New(Options{Rules: rules(t, "growth>1B/s")})
	for s := range 200 {
		live := uint64(5000)
		if s%10 == 0 {
			live = 900_000
		}
		j.Observe(at(time.Duration(s)*time.Second, live, 1, 1))
	}
	if o := j.Decide(at(200*time.Second, 5000, 1, 1), Evidence{}); statuses(o)[0] != "passed" {
		t.Errorf("%+v", o.Rules)
	}
	if n := len(j.courses[program{process: 1}].points); n > maxPoints {
		t.Errorf("%d points are kept", n)
	}
}

func TestWarmUpDoesNotCount(t *testing.T) {
	o := Options{Rules: rules(t, "allocs>50,growth>2000B/s,rss>300,leak>10,heap>5000"), WarmUp: 10 * time.Second}
	j := New(o)
	j.Observe(at(1*time.Second, 90_000, 1000, 9000)) // all of it before
	for s := range 5 {
		j.Observe(at(time.Duration(10+s)*time.Second, uint64(1000+s*1000), uint64(2000+s*10), 300))
	}
	last := at(15*time.Second, 5000, 2050, 200)
	last.Leaks = []report.Leak{{Kind: "definite", Bytes: 100, Count: 1, WarmUpBytes: 90}}
	if out := j.Decide(last, Evidence{}); !slices.Equal(statuses(out), []string{"passed", "passed", "passed", "passed", "passed"}) || len(out.Problems) != 0 {
		t.Errorf("%+v", out)
	}
	early := New(o).Decide(at(9*time.Second, 1, 1, 1), Evidence{})
	if len(early.Problems) != 1 || !strings.Contains(early.Problems[0], "before the warm-up of 10s was over") || early.Failed {
		t.Errorf("%+v", early)
	}
}

func TestAJobThatCouldNotBeCheckedDoesNotPass(t *testing.T) {
	for want, spoil := range map[string]func(*report.Report, *Options, *Evidence){
		"5 events were lost": func(r *report.Report, _ *Options, _ *Evidence) { r.Events.Lost = 5 },
		"no allocation was seen": func(r *report.Report, _ *Options, _ *Evidence) {
			r.Events.Alloc, r.Processes[0].Attached = 0, true
		},
		"no allocation was seen, so": func(r *report.Report, _ *Options, _ *Evidence) {
			r.Events.Alloc, r.Processes[0].RSSBy.AnonMmap = 0, 1<<20
		},
		"no allocation was seen, so nothing": func(r *report.Report, _ *Options, _ *Evidence) {
			r.Events.Alloc, r.Processes[0].Unprobed = 0, true
		},
		"no allocation was seen, so nothing was checked": func(r *report.Report, _ *Options, _ *Evidence) {
			r.Events.Alloc, r.Processes[0].Usage.SampledNS = 0, 0
		},
		"nothing was seen for 3s": func(r *report.Report, _ *Options, _ *Evidence) {
			r.Overhead = &report.Overhead{Limit: 0.05, PausedNS: uint64(3 * time.Second)}
		},
		"no allocation was seen for 4s": func(r *report.Report, _ *Options, _ *Evidence) {
			r.Overhead = &report.Overhead{Limit: 0.05, NoneNS: uint64(3 * time.Second), PausedNS: uint64(time.Second)}
		},
		"blocks were sampled for 2s": func(r *report.Report, _ *Options, _ *Evidence) {
			r.Pressure = &report.Pressure{Phases: 1, SampledNS: uint64(2 * time.Second)}
		},
		"the memory was not read": func(_ *report.Report, _ *Options, e *Evidence) { e.Problems = []string{"the memory was not read"} },
		"too short to tell growth": func(_ *report.Report, o *Options, _ *Evidence) {
			o.Rules, o.MinGrowth = Rules{{text: "growing", kind: "growing"}}, time.Minute
		},
		"fewer than 3 Reports": func(_ *report.Report, o *Options, _ *Evidence) {
			o.Rules, _ = ParseRules([]string{"growth>1GiB/s"})
		},
		"no process lived to its first": func(r *report.Report, o *Options, _ *Evidence) {
			o.Rules, _ = ParseRules([]string{"rss>1GiB"})
			r.Processes[0].Usage.SampledNS = 0
		},
	} {
		r, opt, e := at(time.Second, 1, 1, 1), Options{Rules: rules(t, "definite")}, Evidence{}
		spoil(r, &opt, &e)
		o := New(opt).Decide(r, e)
		if len(o.Problems) != 1 || !strings.Contains(o.Problems[0], want) || statuses(o)[0] != "unknown" || o.Failed {
			t.Errorf("%s: %+v", want, o)
		}
	}
	// A program that allocates nothing leaks nothing.
	none := at(time.Second, 0, 0, 1<<20)
	none.Processes[0].RSSBy = report.RSSBy{AnonMmap: 12 << 10, File: 1 << 20}
	if o := New(Options{Rules: rules(t, "definite")}).Decide(none, Evidence{}); len(o.Problems) != 0 || statuses(o)[0] != "passed" {
		t.Errorf("%+v", o)
	}
	// Faults that were missed say nothing of leaks, and a limit on RSS asks for no trace.
	r := at(time.Second, 1, 1, 1)
	r.Events.LostBy.MissedFaults = 5
	if o := New(Options{Rules: rules(t, "definite")}).Decide(r, Evidence{}); len(o.Problems) != 0 {
		t.Errorf("%+v", o)
	}
	r.Events = report.Events{Lost: 9}
	if o := New(Options{Rules: rules(t, "rss>1GiB")}).Decide(r, Evidence{}); len(o.Problems) != 0 || statuses(o)[0] != "passed" {
		t.Errorf("%+v", o)
	}
}

// unseen is a Report of a process without a probe on free that was looked at so often.
func unseen(walks uint64) *report.Report {
	r := at(time.Minute, 1, 1, 1)
	r.Processes[0].FreeWalk = &report.FreeWalk{Walks: walks, WalkedNS: uint64(time.Minute)}
	r.Processes[0].TracedNS = uint64(time.Minute)
	return r
}

// says reports whether a problem has that text.
func says(o *report.Outcome, text string) bool {
	return slices.ContainsFunc(o.Problems, func(p string) bool { return strings.Contains(p, text) })
}

// What may have been freed unseen is no certain leak, but nobody knows that it is none.
func TestBlocksThatCouldNotBeJudged(t *testing.T) {
	for _, c := range []struct {
		rule   string
		spoil  func(*report.Report)
		status string
	}{
		{"definite", func(*report.Report) {}, "unknown"},
		{"leak>1MB", func(*report.Report) {}, "unknown"},
		{"possible", func(*report.Report) {}, "failed"},
		{"definite", func(r *report.Report) { r.Leaks[0].Doubtful = false }, "passed"},
		{"definite", func(r *report.Report) { r.Leaks[0].Process = 2 }, "passed"},
		{"rss>1GiB", func(*report.Report) {}, "passed"},
	} {
		r := unseen(1)
		r.Leaks = []report.Leak{{Process: 1, PID: 7, Kind: "possible", Doubtful: true, Count: 3, Bytes: 300}}
		c.spoil(r)
		o := New(Options{Rules: rules(t, c.rule)}).Decide(r, Evidence{})
		said := says(o, "process 7: 3 blocks of 300 B")
		if statuses(o)[0] != c.status || said != (c.status == "unknown") {
			t.Errorf("%s: %+v, want %s", c.rule, o, c.status)
		}
	}
	r := unseen(1)
	r.Leaks = []report.Leak{{Process: 1, Kind: "possible", Doubtful: true, Count: 3, Known: true}}
	if out := (&Judge{opt: Options{Rules: rules(t, "definite")}}).unjudged(r); len(out) != 0 {
		t.Errorf("of a leak in the baseline: %q", out)
	}
}

// Where free has no probe, growth is told by the looks alone.
func TestTooFewLooksTellNoGrowth(t *testing.T) {
	for _, c := range []struct {
		rule   string
		walks  uint64
		spoil  func(*report.Process)
		status string
	}{
		{"growing", 7, func(*report.Process) {}, "unknown"},
		{"growing", 8, func(*report.Process) {}, "passed"},
		{"growing", 0, func(p *report.Process) { p.TracedNS = uint64(time.Second) }, "passed"}, // as in a full trace
		{"growing", 0, func(p *report.Process) { p.FreeWalk.SeenSinceNS = 1 }, "passed"},
		{"growing", 0, func(p *report.Process) { p.FreeWalk = nil }, "passed"},
		{"growth>1GiB/s", 2, func(*report.Process) {}, "unknown"},
		{"growth(other)>1GiB/s", 2, func(*report.Process) {}, "passed"},
		{"definite", 0, func(*report.Process) {}, "passed"},
	} {
		r := unseen(c.walks)
		c.spoil(&r.Processes[0])
		j := New(Options{Rules: rules(t, c.rule), MinGrowth: 2 * time.Second, MinLooks: 8})
		j.measures[0] = measure{value: 1, known: true} // of another process
		o := j.Decide(r, Evidence{})
		if statuses(o)[0] != c.status || (c.status == "unknown") != says(o, "was looked at") {
			t.Errorf("%s after %d looks: %+v, want %s", c.rule, c.walks, o, c.status)
		}
	}
}

// stacked is a Report with a leak at each of the named functions.
func stacked(functions ...string) *report.Report {
	r := at(time.Second, 1, 1, 1)
	for i, f := range functions {
		r.Sites = append(r.Sites, report.Site{ID: i, Function: f, Stack: []*report.Frame{{Function: f}, {Function: "main"}}})
		r.Leaks = append(r.Leaks, report.Leak{Site: i, Kind: "definite", Bytes: 10, Count: 1})
	}
	r.Identify()
	return r
}

func TestBaseline(t *testing.T) {
	known := NewBaseline(stacked("old", "fixed", "hidden"))
	r := stacked("old", "new")
	r.Leaks[0].Kind = "possible" // the same leak, found otherwise
	o := New(Options{Rules: rules(t, "definite,possible,leak>10"), Known: known}).Decide(r, Evidence{Suppressed: stacked("hidden").Leaks})
	if !slices.Equal(statuses(o), []string{"failed", "passed", "passed"}) || !slices.Equal(o.Rules[0].Leaks, []int{1}) || !r.Leaks[0].Known {
		t.Errorf("%+v", o)
	}
	if len(o.Gone) != 1 || o.Gone[0].Function != "fixed" || o.Gone[0].Bytes != 10 || o.Known.Count != 1 || o.Suppressed.Bytes != 10 {
		t.Errorf("%+v", o)
	}
	if o := New(Options{Rules: rules(t, "definite"), Known: known}).Decide(stacked(), Evidence{Problems: []string{"x"}}); len(o.Gone) != 0 {
		t.Errorf("gone without a look: %+v", o.Gone)
	}
}

// A limit that was not measured in children that are summed up is no pass.
func TestLimitsOnCrowds(t *testing.T) {
	for text, want := range map[string]string{
		"rss>1e9": "unknown", "rss(service)>1e9": "unknown", "rss(pid:7)>1e9": "passed", "rss>1": "failed", "growth>1e9/s": "unknown",
		"heap>1e9": "passed", "heap(service)>1e9": "unknown", "allocs>1e9": "passed", "allocs(service)>1e9": "unknown", "allocs>100": "failed",
		"leak>1e9": "passed", "definite": "passed",
	} {
		j := New(Options{Rules: rules(t, text)})
		var r *report.Report
		for i := range 3 {
			r = at(time.Duration(i+1)*time.Second, 1000, 60, 200)
			r.Processes = append(r.Processes, report.Process{ID: 2, PID: 7, Comm: "service", Children: 5, Heap: report.Heap{AllocCount: 60}})
			if i < 2 {
				j.Observe(r)
			}
		}
		o := j.Decide(r, Evidence{})
		if got := statuses(o)[0]; got != want || (want == "unknown") != slices.ContainsFunc(o.Problems, func(p string) bool { return strings.Contains(p, "not measured in 5 children") }) {
			t.Errorf("%s: %s with problems %q, want %s", text, got, o.Problems, want)
		}
	}
}
