package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

// topCourse has services grow by a clock of its own, and tops chosen among them.
type topCourse struct {
	c    *Config
	b    *book
	now  time.Time
	anon map[string]float64
}

func newTopCourse(t *testing.T, config string) *topCourse {
	t.Helper()
	return &topCourse{c: parsed(t, config), b: newRootsBook(), now: time.Unix(1_700_000_000, 0),
		anon: make(map[string]float64)}
}

// run has services grow for some time, by KiB an hour. Those that aren't in rates have no processes.
func (x *topCourse) run(lasts time.Duration, rates map[string]float64) {
	for end := x.now.Add(lasts); x.now.Before(end); x.now = x.now.Add(x.c.Interval) {
		clear(x.b.services)
		for name, rate := range rates {
			x.anon[name] += rate * 1024 * x.c.Interval.Hours()
			size := 1<<20 + uint64(x.anon[name])
			x.b.services[name] = &Service{Name: name, Processes: 1, Anon: size, RSS: size}
			if x.b.totals[name] == nil {
				x.b.totals[name] = &counted{}
			}
		}
		x.b.top.choose(x.c, x.b, x.now)
	}
}

func (x *topCourse) holds(t *testing.T, when, want string) {
	t.Helper()
	if got := strings.Join(x.b.top.names(), " "); got != want {
		t.Errorf("%s: %q are watched, want %q", when, got, want)
	}
}

// The services that have grown most are watched, once they have grown by enough, and no idle one is.
func TestTopIsChosenByGrowth(t *testing.T) {
	x := newTopCourse(t, "watch_top: 2\nwatch_top_least: 256KiB")
	idle := map[string]float64{"a": 0, "b": -50, "c": 20, "d": 0}
	x.run(3*time.Hour, idle)
	x.holds(t, "idle", "")

	x = newTopCourse(t, "watch_top: 2\nwatch_top_least: 256KiB")
	leak := map[string]float64{"a": 0, "b": 20, "leak": 3600, "slow": 400, "slower": 300} // KiB an hour
	x.run(4*time.Minute, leak)
	x.holds(t, "after 4 min", "")
	x.run(2*time.Minute, leak)
	x.holds(t, "after 6 min", "leak")
	if why := x.b.top.why("leak"); !strings.HasPrefix(why, "watch_top: it has grown most, by 2") ||
		!strings.HasSuffix(why, "s") {
		t.Errorf("why: %q", why)
	}
	x.run(50*time.Minute, leak)
	x.holds(t, "after 56 min", "leak slow")
	x.run(3*time.Hour, leak)
	x.holds(t, "later", "leak slow")
}

// A service that is watched stays for half an hour at least, and until another one has grown by twice as much. Two that
// grow alike don't take turns. One that grows no more goes, once that has lasted.
func TestTopStays(t *testing.T) {
	x := newTopCourse(t, "watch_top: 1")
	x.run(10*time.Minute, map[string]float64{"a": 4000, "b": 0})
	x.holds(t, "at first", "a")
	x.run(15*time.Minute, map[string]float64{"a": 4000, "b": 50_000})
	x.holds(t, "before half an hour", "a")
	x.run(20*time.Minute, map[string]float64{"a": 4000, "b": 50_000})
	x.holds(t, "after that", "b")
	x.run(70*time.Minute, map[string]float64{"a": 80_000, "b": 50_000})
	x.holds(t, "beside one that grows by half as much again", "b")
	x.run(70*time.Minute, map[string]float64{"a": 80_000, "b": 0})
	x.holds(t, "when it has stopped", "a")
	x.run(29*time.Minute, map[string]float64{"b": 0})
	x.holds(t, "as it restarts", "a")
	x.run(20*time.Minute, map[string]float64{"b": 0})
	x.run(3*time.Hour, map[string]float64{"a": 0, "b": 0})
	x.holds(t, "when nothing grows", "")
}

// Rules go first, and max_watched bounds all. What a rule has watched is not watched twice. Another configuration
// counts at once.
func TestTopLeavesRoomForRules(t *testing.T) {
	const rules = "services: [{name: x, program: x, growth: true}, {name: y, program: y, growth: true}]\n"
	leaks := map[string]float64{"a": 9000, "b": 8000, "c": 7000, "x": 99_000}
	for config, want := range map[string]string{
		"watch_top: 2\nmax_watched: 3":           "a x",
		"watch_top: 2\nmax_watched: 1":           "x",
		"watch_top: 2\nmax_watched: 3\n" + rules: "a",
		"watch_top: 2\nmax_watched: 2\n" + rules: "",
		"watch_top: 9\n" + rules:                 "a b c",
		"watch_top: 0":                           "",
		"watch_top: 1\nwatch_top_by: rss":        "x",
		"watch_top: 1\nwatch_top_least: 1GiB\n":  "",
	} {
		x := newTopCourse(t, config)
		x.run(20*time.Minute, leaks)
		x.holds(t, config, want)
	}
	x := newTopCourse(t, "watch_top: 3")
	x.run(20*time.Minute, leaks)
	x.c = parsed(t, "watch_top: 1")
	x.run(x.c.Interval, leaks)
	x.holds(t, "fewer", "x")
	x.c = parsed(t, "watch_top: 2\n"+rules)
	x.run(x.c.Interval, leaks)
	x.holds(t, "with a rule of its own", "a b")
	x.c = parsed(t, "")
	x.run(x.c.Interval, leaks)
	x.holds(t, "none", "")
	if len(x.b.top.growth) != 0 {
		t.Errorf("%d courses are kept for nothing", len(x.b.top.growth))
	}
}

// Nobody but root has a service watched by having it grow: not by a program of a name that a rule takes, nor by one
// that counts with root's. The agent doesn't watch itself, nor what it has started.
func TestTopIsRootsAlone(t *testing.T) {
	const config = "watch_top: 9\nwatch_top_by: rss\nwatch_top_least: 4KiB\nothers: program\n" +
		"services: [{name: anybodys, program: a*}, {name: roots, program: r*, user: root}, {name: both, program: 'b?'}, " +
		"{name: everywhere, program: strange, cgroup: /}]"
	c, b := parsed(t, config), newBook()
	b.self = 77
	b.group = func(p *collect.Process) processGroup { return processGroup{user: p.UID} }
	of := func(pid int, comm string, uid uint32, parent int) *collect.Process {
		p := process(pid, 1, comm, 1<<20, 0)
		p.UID, p.PPID = uid, parent
		return p
	}
	all := pass(
		of(1, "plain", 0, 1), of(2, "plain", 1000, 1), of(3, "rooted", 0, 1), of(4, "able", 0, 1), of(5, "bx", 0, 1),
		of(6, "both", 0, 1), of(77, "memtrace", 0, 1), of(78, "exe", 0, 77), of(79, "exe", 0, 1),
		of(80, "strange", unknownUser, 1), of(81, "strange", 0, 1),
	)
	for i := range 2 { // the processes of what was chosen are known a pass later
		all.At = time.Unix(1_700_000_000+int64(i), 0)
		b.take(c, all)
	}
	if got := fmt.Sprint(b.top.names()); got != "[plain roots]" {
		t.Errorf("%s are watched", got)
	}
	if p := b.members["plain"]; len(p) != 1 || p[0].PID != 1 {
		t.Errorf("processes %v", p)
	}
	all.Processes = append(all.Processes, of(90, "r", 0, 77))
	b.take(c, all)
	if b.top.has("roots") {
		t.Error("one that the agent has started is watched")
	}
}

// What is watched has metrics of its own, however many larger ones there are.
func TestTopIsListed(t *testing.T) {
	c, b := parsed(t, "max_services: 1\nwatch_top: 1\nothers: program"), newRootsBook()
	b.top.picks["small"] = &pick{since: time.Unix(1_700_000_000, 0), good: time.Unix(1_700_000_000, 0),
		why: "watch_top: it grew"}
	p := pass(process(1, 1, "small", 1, 0), process(2, 1, "large", 1<<30, 0), process(3, 1, "larger", 1<<31, 0))
	p.At = time.Unix(1_700_000_001, 0)
	services, _ := b.take(c, p)
	if _, there := byName(services)["small"]; !there || b.top.why("small") != "watch_top: it grew" {
		t.Errorf("%+v", services)
	}
}
