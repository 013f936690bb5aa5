package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

var begin = time.Unix(1_700_000_000, 0)

func rule(t *testing.T, when string, holds time.Duration) Rule {
	t.Helper()
	r := Rule{Name: "test", When: when, For: &holds}
	if err := r.Prepare(nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// swapped are figures of a machine with so many of 1,000 KiB of swap in use.
func swapped(t *testing.T, used int) *Figures {
	t.Helper()
	memory := new(procfs.Counters)
	if err := memory.Parse(fmt.Appendf(nil, "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 1000 kB\nSwapFree: %d kB\n", 1000-used)); err != nil {
		t.Fatal(err)
	}
	return &Figures{Memory: memory}
}

// pass has a Book look at figures so many seconds after the beginning, and says what changed, in short.
func pass(b *Book, seconds int, f *Figures) string {
	f.At = begin.Add(time.Duration(seconds) * time.Second)
	var out []string
	for _, c := range b.Check(f) {
		word := "-"
		if c.Firing {
			word = "+"
		}
		out = append(out, word+c.Service)
	}
	return strings.Join(out, " ")
}

// An alert fires once, after the condition was met for its time, and is over after it wasn't for as long: a figure about
// its limit makes no second one.
func TestFiresOnce(t *testing.T) {
	b := NewBook([]Rule{rule(t, "swap>80%", 20*time.Second)})
	for i, c := range []struct {
		used int
		want string
	}{
		{810, ""}, {810, ""}, {700, ""}, // too short
		{810, ""}, {850, ""}, {810, "+"}, {900, ""}, // 30, 40, 50 s
		{790, ""}, {770, ""}, {790, ""}, {761, ""}, // about the limit, and above what is back by a part of it
		{700, ""}, {700, ""}, {790, ""}, // back, but not for long enough
		{760, ""}, {700, ""}, {700, "-"}, {700, ""},
		{810, ""}, {810, ""}, {810, "+"},
	} {
		if got := pass(b, 10*i, swapped(t, c.used)); got != c.want {
			t.Errorf("%d s, %d in use: %q, want %q", 10*i, c.used, got, c.want)
		}
	}
}

// Another configuration leaves a rule as it was that is the same, and what one that is gone has begun is over.
func TestReload(t *testing.T) {
	b := NewBook([]Rule{rule(t, "swap>80%", 20*time.Second)})
	pass(b, 0, swapped(t, 900))
	b.Reload([]Rule{rule(t, "swap>80%", 10*time.Second)}, begin)
	if got := pass(b, 10, swapped(t, 900)); got != "+" {
		t.Errorf("the time before was forgotten: %q", got)
	}
	b.Reload([]Rule{rule(t, "swap>80%", 10*time.Second), rule(t, "swap>85%", 0)}, begin)
	if got := pass(b, 20, swapped(t, 900)); got != "+" || len(b.States()) != 2 {
		t.Errorf("it is the other's alone to fire: %q, %+v", got, b.States())
	}
	b.Reload([]Rule{rule(t, "swap>85%", 0)}, begin)
	if got := pass(b, 30, swapped(t, 900)); got != "-" || len(b.States()) != 1 {
		t.Errorf("a rule that is gone: %q, %+v", got, b.States())
	}
}

// A figure that can't be told changes nothing, and is said.
func TestUnknownChangesNothing(t *testing.T) {
	b := NewBook([]Rule{rule(t, "swap>80%", 0)})
	unknown := func() string { return b.States()[0].Unknown }
	if got := pass(b, 0, &Figures{}); got != "" || unknown() != "/proc/meminfo could not be read" {
		t.Errorf("%q, %q", got, unknown())
	}
	if got := pass(b, 10, swapped(t, 900)); got != "+" || unknown() != "" {
		t.Errorf("%q, %q", got, unknown())
	}
	if got := pass(b, 20, &Figures{}); got != "" || b.States()[0].State != Firing {
		t.Errorf("silence was taken for health: %q, %+v", got, b.States())
	}
	b = NewBook([]Rule{rule(t, "psi.some.avg10>1", 0)})
	if got := pass(b, 0, &Figures{}); got != "" || !strings.Contains(unknown(), "PSI") {
		t.Errorf("%q, %q", got, unknown())
	}
}

// Sums that lack processes say that a limit is crossed, and never that it isn't.
func TestPartialSums(t *testing.T) {
	of := func(pss uint64, unread int) *Figures {
		return &Figures{Services: []Service{{Name: "a", Processes: 2, PSS: pss, Unread: unread}}}
	}
	b := NewBook([]Rule{rule(t, "pss(a)>100", 0), rule(t, "pss(a)<100", 0)})
	b.rules[1].Name = "less"
	for i, c := range []struct {
		f    *Figures
		want string
	}{{of(90, 1), ""}, {of(101, 1), "+a"}, {of(10, 1), ""}, {of(10, 0), "-a +a"}, {of(200, 1), "+a -a"}} {
		if got := pass(b, i, c.f); got != c.want {
			t.Errorf("look %d: %q, want %q", i, got, c.want)
		}
	}
}

// A pattern has an alert for each service, which ends with the service; a service by its name is known to be gone.
func TestServices(t *testing.T) {
	of := func(names ...string) *Figures {
		f := &Figures{}
		for _, n := range names {
			f.Services = append(f.Services, Service{Name: n, Processes: 1, RSS: 200})
		}
		return f
	}
	b := NewBook([]Rule{rule(t, "rss(web-*)>100", 10*time.Second)})
	for i, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"web-1", "web-2", "db"}, ""}, {[]string{"web-1", "web-2", "db"}, "+web-1 +web-2"}, {[]string{"web-2"}, ""}, {[]string{"web-2"}, "-web-1"},
		{nil, ""}, {nil, "-web-2"}, {nil, ""},
	} {
		if got := pass(b, 10*i, of(c.names...)); got != c.want {
			t.Errorf("look %d: %q, want %q", i, got, c.want)
		}
	}
	if len(b.entries) != 0 {
		t.Errorf("services that are gone are kept: %v", b.entries)
	}
	b = NewBook([]Rule{rule(t, "processes(db)<1", 0), rule(t, "rss(db)<1", 0)})
	if got := pass(b, 0, of()); got != "+db" || b.States()[1].Unknown == "" {
		t.Errorf("a service that was never there: %q, %+v", got, b.States())
	}
	if got := pass(b, 1, of("db")) + "," + pass(b, 2, of()); got != "-db,+db +db" {
		t.Errorf("a service that comes and goes: %q", got)
	}
	b = NewBook([]Rule{rule(t, "processes(db)<1", 0)})
	if got := pass(b, 0, &Figures{Omitted: 1}); got != "" || !strings.Contains(b.States()[0].Unknown, "max_services") {
		t.Errorf("a service among the others is taken for gone: %q, %+v", got, b.States())
	}
}

// Growth is that over the whole span: one peak or a short one is none. In swap, memory is still there.
func TestGrowth(t *testing.T) {
	r := rule(t, "growth(*)>1MiB/min", 0)
	r.Over = 10 * time.Minute
	b := NewBook([]Rule{r})
	grows := func(seconds int, perMinute uint64) string {
		size := 10<<20 + perMinute*uint64(seconds)/60
		return pass(b, seconds, &Figures{Services: []Service{
			{Name: "grows", Processes: 1, Anon: size / 2, Swap: size - size/2},
			{Name: "swings", Processes: 1, Anon: []uint64{0, 900 << 20}[seconds/60%2]},
			{Name: "unread", Processes: 1, Anon: size, Unread: 1},
		}})
	}
	for s := 0; s < 600; s += 10 {
		if got := grows(s, 2<<20); got != "" {
			t.Fatalf("%d s: %q", s, got)
		}
	}
	if got := grows(600, 2<<20); got != "+grows" {
		t.Errorf("after its span: %q", got)
	}
	for at, c := range b.courses {
		if len(c.points) > maxPoints+2 {
			t.Errorf("%v has %d points", at, len(c.points))
		}
	}
	if i := slices.IndexFunc(b.States(), func(s State) bool { return s.State == Firing }); i < 0 || int(b.States()[i].Figure*60+.5) != 2<<20 {
		t.Errorf("%+v", b.States())
	}
}

// Processes that were killed before the agent began don't count, and those that were count for the span.
func TestOOMKills(t *testing.T) {
	r := rule(t, "oom_kills>0", 0)
	r.Over = time.Minute
	b := NewBook([]Rule{r})
	for i, c := range []struct {
		kills uint64
		want  string
	}{{7, ""}, {7, ""}, {8, "+"}, {8, ""}, {8, ""}, {8, ""}, {8, ""}, {8, ""}, {8, "-"}, {3, ""}} {
		if got := pass(b, 10*i, &Figures{OOMKills: &c.kills}); got != c.want {
			t.Errorf("%d s, %d: %q, want %q", 10*i, c.kills, got, c.want)
		}
	}
}

func TestGrownNeedsAWatch(t *testing.T) {
	b := NewBook([]Rule{rule(t, "grown(a)>1KiB", 0)})
	size := uint64(4096)
	if got := pass(b, 0, &Figures{Services: []Service{{Name: "a", Processes: 1}}}); got != "" || !strings.Contains(b.States()[0].Unknown, "growth: true") {
		t.Errorf("%q, %+v", got, b.States())
	}
	f := &Figures{At: begin, Services: []Service{{Name: "a", Processes: 1, Grown: &size, Sites: func() []string { return []string{"f a.c:1"} }}}}
	if c := b.Check(f); len(c) != 1 || !c[0].Firing || c[0].Sites[0] != "f a.c:1" || c[0].Figure != 4096 {
		t.Errorf("%+v", c)
	}
}

func TestWrongConditions(t *testing.T) {
	for _, when := range []string{
		"foo>1", "mem.nope>1", "mem>1", "rss>1", "rss(a)>1MiB/s", "growth(a)>1MiB", "growth>1MiB/s", "psi.some>1", "psi.any.avg10>1", "psi.some.avg10>1MiB", "swap>1s",
		"oom_kills>1MiB", "processes(a)>1%", "rss(pid:1)>1", "used(cgroup:/a)>1", "rss([)>1", "live(a)>1", "rss(a)", "rss()>1", "rss(a\n)>1",
	} {
		r := Rule{Name: "a", When: when}
		if err := r.Prepare(nil); err == nil {
			t.Errorf("%s was taken", when)
		}
	}
}

// A Growth is known from its third point on, and goes by the last span alone once that is over, with few points. A step
// does not count as growth.
func TestGrowthSinceItIsKnown(t *testing.T) {
	const interval, longest = 10 * time.Second, time.Hour
	var g Growth
	value, at := 100.0, begin
	run := func(d time.Duration, perSecond float64) {
		for end := at.Add(d); at.Before(end); at = at.Add(interval) {
			g.Add(at, value, interval, longest)
			value += perSecond * interval.Seconds()
		}
	}
	run(2*interval, 5)
	if grown, known := g.Grown(); grown != 0 || known != 0 {
		t.Errorf("of two points: %v in %v", grown, known)
	}
	for _, d := range []time.Duration{interval, time.Minute, 10 * time.Minute, time.Hour, 10 * time.Hour} {
		run(d, 5)
		grown, known := g.Grown()
		if since := min(at.Sub(begin), longest); known < (since-interval)*3/4 || known > since*5/4 || grown != 5*known.Seconds() {
			t.Errorf("after %v: %v in %v", at.Sub(begin), grown, known)
		}
		if n := len(g.course.points); n > 2*maxPoints {
			t.Errorf("%d points", n)
		}
	}
	run(90*time.Minute, 0)
	if grown, _ := g.Grown(); grown != 0 {
		t.Errorf("it has stopped, and %v grew", grown)
	}
	value += 1 << 30
	run(20*time.Minute, 0)
	if grown, _ := g.Grown(); grown != 0 {
		t.Errorf("a step of 1 GiB counts as %v", grown)
	}
}

// A pattern is of names, not of paths: pods have a / in theirs.
func TestPatternsOfPodsNames(t *testing.T) {
	for pattern, want := range map[string]bool{
		"*": true, "shop/*": true, "shop*": true, "*/web-?": true, "shop/web-1": true, "web-*": false, "shop?web-1": true, "prod/*": false,
	} {
		if r := rule(t, "rss("+pattern+")>100", 0); r.covers("shop/web-1") != want {
			t.Errorf("%s: %v", pattern, !want)
		}
	}
}
