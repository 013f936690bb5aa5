package agent

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

func process(pid int, start uint64, comm string, rss, minor uint64) *collect.Process {
	return &collect.Process{Identity: collect.Identity{PID: pid, StartTime: start}, Comm: comm, Threads: 1, RSS: rss, MinFlt: minor, User: time.Duration(minor)}
}

func pass(processes ...*collect.Process) *collect.Pass { return &collect.Pass{Processes: processes} }

func byName(services []Service) map[string]Service {
	m := make(map[string]Service)
	for _, s := range services {
		m[s.Name] = s
	}
	return m
}

// newRootsBook takes all processes for root's.
func newRootsBook() *book {
	b := newBook()
	b.group = func(*collect.Process) processGroup { return processGroup{} }
	return b
}

// A service is a name: its counters go on through restarts, reused PIDs and a time without any process, and never fall.
func TestCountersOutliveProcesses(t *testing.T) {
	c, b := parsed(t, "others: program"), newRootsBook()
	old := process(1, 10, "web", 5, 1000) // it ran before the agent: what it did before is not counted
	for i, step := range []struct {
		pass    *collect.Pass
		minor   uint64
		started uint64
	}{
		{pass(old), 0, 0},
		{pass(process(1, 10, "web", 5, 1300)), 300, 0},
		{pass(process(1, 10, "web", 5, 1300), process(2, 20, "web", 5, 40)), 340, 1},
		{pass(process(1, 30, "web", 5, 7)), 347, 2}, // the PID is another's
		{pass(process(9, 9, "db", 5, 0)), 0, 0},     // none
		{pass(process(1, 50, "web", 5, 3)), 350, 3}, // and again
		{pass(process(1, 50, "web", 5, 1)), 350, 3}, // a counter that fell, as no kernel's does
		{pass(process(1, 50, "web", 5, 11)), 360, 3},
	} {
		services, _ := b.take(c, step.pass)
		s, there := byName(services)["web"]
		if !there {
			if step.minor != 0 {
				t.Errorf("step %d: no service", i)
			}
			continue
		}
		if s.MinorFaults != step.minor || s.Started != step.started || s.CPU != time.Duration(step.minor) {
			t.Errorf("step %d: %d faults, %d started, %v; want %d, %d", i, s.MinorFaults, s.Started, s.CPU, step.minor, step.started)
		}
	}
	for range forgetAfter + 1 {
		b.take(c, pass())
	}
	if len(b.totals) != 0 {
		t.Errorf("%d services are kept for ever", len(b.totals))
	}
}

// A rule has named a service if it has named one of its processes, in whatever order they are.
func TestServiceOfARuleAndOthers(t *testing.T) {
	c, b := parsed(t, "others: program\nservices: [{name: shop, program: till}]"), newRootsBook()
	ruled, other := process(1, 1, "till", 1, 0), process(2, 2, "shop", 1, 0)
	for _, p := range []*collect.Pass{pass(ruled, other), pass(other, ruled)} {
		services, _ := b.take(c, p)
		if named, user := b.named("shop"); !named || user != unknownUser || byName(services)["shop"].Processes != 2 {
			t.Errorf("named by a rule %v, by user %d: %+v", named, user, services)
		}
	}
	b.take(c, pass(other))
	if named, user := b.named("shop"); named || user != 0 {
		t.Errorf("without a process that the rule has named: %v, user %d", named, user)
	}
}

// However many services there are, max_services bounds the series; nothing is lost from the sums; those of rules are
// always there; and a series goes on unless another has become twice as large.
func TestServicesAreBounded(t *testing.T) {
	c, b := parsed(t, "others: program\nmax_services: 3\nservices: [{name: small, program: tiny}]"), newRootsBook()
	make1 := func(grown int) *collect.Pass {
		p := []*collect.Process{process(1, 1, "tiny", 1, 0), {Identity: collect.Identity{PID: 2}, Comm: "kthread", KernelThread: true, RSS: 99}}
		for i := range 10 {
			rss := uint64(100 + i)
			if i == grown {
				rss *= 3
			}
			p = append(p, process(10+i, 1, fmt.Sprintf("p%d", i), rss, 0))
		}
		return pass(p...)
	}
	for i, step := range []struct {
		grown int
		want  string
	}{
		{-1, "p8 p9 small other"},
		{7, "p7 p9 small other"}, // p7 is more than twice as large as p8
		{-1, "p7 p9 small other"},
	} {
		services, omitted := b.take(c, make1(step.grown))
		names, rss, processes := "", uint64(0), 0
		for _, s := range services {
			names += " " + s.Name
			rss += s.RSS
			processes += s.Processes
		}
		want := uint64(1 + 10*100 + 45)
		if step.grown >= 0 {
			want += 2 * uint64(100+step.grown)
		}
		if names != " "+step.want || rss != want || processes != 11 || omitted != 8 {
			t.Errorf("step %d: services%s with RSS %d of %d processes, %d omitted; want %s, %d of 11, 8", i, names, rss, processes, omitted, step.want, want)
		}
	}
}

// A user who has many large processes, of a name each, takes a part of the series that others have a share of. Only what
// nobody else needs is theirs, too.
func TestUsersShareTheSeries(t *testing.T) {
	c, b := parsed(t, "others: program\nmax_services: 12"), newBook()
	b.group = func(p *collect.Process) processGroup { return processGroup{user: uint32(p.PPID)} }
	of := func(user, first, n int, rss uint64) (all []*collect.Process) {
		for i := range n {
			p := process(first+i, 1, fmt.Sprintf("p%d", i), rss, 0)
			p.PPID = user
			all = append(all, p)
		}
		return all
	}
	hostile := of(1000, 1, 100, 1<<40)
	for name, test := range map[string]struct {
		others []*collect.Process
		want   map[string]int // by user
	}{
		"alone":                   {nil, map[string]int{"1000": 12}},
		"beside root's":           {of(0, 1000, 20, 1), map[string]int{"1000": 6, "root": 6}},
		"beside root's and users": {append(of(0, 1000, 20, 1), of(1001, 2000, 20, 1)...), map[string]int{"1000": 3, "1001": 3, "root": 6}},
		"beside few of root's":    {of(0, 1000, 2, 1), map[string]int{"1000": 10, "root": 2}},
	} {
		services, _ := b.take(c, pass(append(test.others, hostile...)...))
		got := make(map[string]int)
		for _, s := range services[:len(services)-1] { // the last is "other"
			_, user, ok := strings.Cut(strings.TrimSuffix(s.Name, ")"), " (user ")
			if !ok {
				user = "root"
			}
			got[user]++
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// Processes are kept of services that an alert may have traced. Under a rule's name, only those are that the rule means.
func TestProcessesOfTracedServices(t *testing.T) {
	c, b := parsed(t, "others: program\nservices: [{name: shop, program: shopd}]\n"+
		"alerts: [{name: a, when: rss(shop)>1, trace: 1m}, {name: b, when: growth(w*)>1/h, trace: 1m}, {name: c, when: rss(db)>1}]"), newRootsBook()
	b.take(c, pass(process(1, 1, "shop", 9, 0), process(2, 1, "shopd", 5, 0), process(3, 1, "web", 5, 0), process(4, 1, "web", 5, 0), process(5, 1, "db", 5, 0)))
	for service, want := range map[string]string{"shop": "2", "web": "3 4", "db": "", "none": ""} {
		var pids []string
		for _, p := range b.processes(service) {
			pids = append(pids, fmt.Sprint(p.PID))
		}
		if is := strings.Join(pids, " "); is != want {
			t.Errorf("%s: %q, want %q", service, is, want)
		}
	}
	b.take(c, pass(process(3, 1, "web", 5, 0)))
	if len(b.processes("web")) != 1 || b.processes("shop") != nil {
		t.Error("processes of a pass before are kept")
	}
}
