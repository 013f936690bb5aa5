package agent

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

// A book sums passes up into services, and keeps what only grows: a process that ends takes nothing back.
type book struct {
	before   map[collect.Identity]counts   // of the processes of the last pass
	now      map[collect.Identity]counts   // of this one
	totals   map[string]*counted           // by service
	services map[string]*Service           // of this pass
	listed   map[string]bool               // had metrics of their own in the last pass
	members  map[string][]*collect.Process // of this pass, of services whose growth is watched
	top      top
	traced   map[string][]*collect.Process // of this pass, of services that an alert may have traced
	passes   uint64
	self     int // the agent's PID
	owners   *groupOwners
	pods     *pods
	group    func(*collect.Process) processGroup // that a process is in
}

// counts are what the kernel counts for a process.
type counts struct {
	minor, major uint64
	cpu          time.Duration
}

// counted are a service's counters, and when it was seen last.
type counted struct {
	counts
	started uint64
	named   bool   // by a rule
	user    uint32 // who has named it, 0 for root: serviceOf has it
	own     bool   // the agent is among its processes, or a program that it has started
	seen    uint64 // pass
}

// forgetAfter is for how many passes a service without processes keeps its counters. It may be restarting.
const forgetAfter = 360

func newBook() *book {
	b := &book{
		before: make(map[collect.Identity]counts), now: make(map[collect.Identity]counts), totals: make(map[string]*counted),
		services: make(map[string]*Service), listed: make(map[string]bool), members: make(map[string][]*collect.Process),
		traced: make(map[string][]*collect.Process),
		owners: openGroupOwners(), pods: &pods{links: podLinks}, self: os.Getpid(), top: newTop(),
	}
	b.group = func(p *collect.Process) processGroup { return groupOf(p, b.owners, b.pods) }
	return b
}

// take sums a pass up. Of services that no rule names, at most c.MaxServices are listed by themselves; the others are
// in the last one, "other", and omitted is how many they are.
func (b *book) take(c *Config, pass *collect.Pass) (services []Service, omitted int) {
	b.passes++
	watched, _ := c.watched()
	clear(b.now)
	clear(b.services)
	clear(b.members)
	clear(b.traced)
	b.owners.begin()
	b.pods.begin(c.Pods)
	for _, name := range slices.Concat(watched, b.top.names()) {
		b.members[name] = nil
	}
	for _, p := range pass.Processes {
		if p.KernelThread {
			continue
		}
		name, user, named := c.serviceOf(p, b.group(p))
		s := b.services[name]
		if s == nil {
			s = &Service{Name: name}
			b.services[name] = s
			if c.tracesOf(name) {
				b.traced[name] = nil
			}
		}
		s.add(p)
		b.count(name, user, named, p)
		if _, watched := b.members[name]; watched && (named || b.top.has(name)) {
			b.members[name] = append(b.members[name], p)
		}
		if traced, may := b.traced[name]; may && (named || !c.names(name)) {
			b.traced[name] = append(traced, p)
		}
	}
	b.top.choose(c, b, pass.At)
	b.before, b.now = b.now, b.before
	b.forget()
	return b.list(c)
}

// processes are those of this pass of a service that an alert may have traced.
func (b *book) processes(service string) []*collect.Process { return b.traced[service] }

// named says whether a rule has named a service, and which user else; 0 is root.
func (b *book) named(service string) (byRule bool, user uint32) {
	t := b.totals[service]
	if t == nil {
		return false, 0
	}
	return t.named, t.user
}

// count adds what a process did since the last pass to its service. Of one that ran before the agent began, only what
// comes from then on counts.
func (b *book) count(name string, user uint32, named bool, p *collect.Process) {
	t := b.totals[name]
	if t == nil {
		t = &counted{}
		b.totals[name] = t
	}
	own := p.PID == b.self || p.PPID == b.self
	if t.seen == b.passes { // one process that is another's is enough, and so is one that a rule has named
		user, own, named = max(user, t.user), own || t.own, named || t.named
	}
	t.named, t.user, t.own, t.seen = named, user, own, b.passes
	is := counts{p.MinFlt, p.MajFlt, p.CPU()}
	b.now[p.Identity] = is
	was, known := b.before[p.Identity]
	switch {
	case !known && b.passes == 1:
		was = is
	case !known:
		t.started++
	}
	t.minor += is.minor - min(was.minor, is.minor)
	t.major += is.major - min(was.major, is.major)
	t.cpu += is.cpu - min(was.cpu, is.cpu)
}

// forget drops the counters of services that are gone for good.
func (b *book) forget() {
	for name, t := range b.totals {
		if b.passes-t.seen > forgetAfter {
			delete(b.totals, name)
		}
	}
}

// list sorts the services by name, after choosing those that are listed.
func (b *book) list(c *Config) (services []Service, omitted int) {
	other := Service{Name: otherServices}
	ranked := b.ranked()
	chosen := b.choose(ranked, c.MaxServices)
	for _, s := range ranked {
		t := b.totals[s.Name]
		if !chosen[s.Name] {
			other.merge(s)
			other.count(t)
			if s.Name != otherServices {
				omitted++
			}
			continue
		}
		s.count(t)
		services = append(services, *s)
	}
	clear(b.listed)
	for i := range services {
		b.listed[services[i].Name] = true
	}
	slices.SortFunc(services, func(x, y Service) int { return cmp.Compare(x.Name, y.Name) })
	if other.Processes > 0 {
		services = append(services, other)
	}
	return services, omitted
}

// choose takes those that rules name or that are watched, and of the others as many as there is room for, in their order. What users have
// named has no more than half of the room, each user alike, unless there is nothing else: one who has many large
// processes, of many names, must not push others' services out.
func (b *book) choose(ranked []*Service, most int) map[string]bool {
	chosen, users := make(map[string]bool), make(map[uint32]int)
	for _, s := range ranked {
		if t := b.totals[s.Name]; t.named || b.top.has(s.Name) {
			chosen[s.Name] = true
		} else if t.user != 0 {
			users[t.user] = 0
		}
	}
	share := max(1, most/2/max(1, len(users)))
	for _, fair := range []bool{true, false} {
		for _, s := range ranked {
			t := b.totals[s.Name]
			enough := fair && t.user != 0 && users[t.user] >= share
			if chosen[s.Name] || s.Name == otherServices || len(chosen) >= most || enough {
				continue
			}
			chosen[s.Name] = true
			users[t.user]++
		}
	}
	return chosen
}

// ranked are the services, those first that rules name, then those that were listed before, so that a series goes on,
// unless another has become twice as large.
func (b *book) ranked() []*Service {
	all := make([]*Service, 0, len(b.services))
	for _, s := range b.services {
		all = append(all, s)
	}
	weight := func(s *Service) uint64 {
		switch {
		case b.totals[s.Name].named:
			return 1 << 63
		case b.listed[s.Name]:
			return 2 * s.RSS
		}
		return s.RSS
	}
	slices.SortFunc(all, func(x, y *Service) int {
		return cmp.Or(cmp.Compare(weight(y), weight(x)), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// count adds a service's counters.
func (s *Service) count(t *counted) {
	s.MinorFaults += t.minor
	s.MajorFaults += t.major
	s.CPU += t.cpu
	s.Started += t.started
}
