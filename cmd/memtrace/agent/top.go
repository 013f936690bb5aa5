package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// top are the services that are watched without a rule that asks for it, as they have grown most.
//
// Only those take part that nobody but root has named: who may call a program as he likes could have the agent's tracer
// read one of his own.
type top struct {
	growth map[string]*alert.Growth // of services that may be chosen
	picks  map[string]*pick
}

// pick is a service that was chosen.
type pick struct {
	since, good time.Time // when it was, and when it last had enough
	why         string
}

// candidate is what a service has of what they are chosen by.
type candidate struct {
	name  string
	bytes float64
	known time.Duration // for which it has grown by so much; 0: they are not chosen by growth
}

const (
	// topSpan is the time that growth is looked at.
	topSpan = time.Hour
	// topKnown is how many intervals a service has been known for before it is chosen by growth: most grow as they start.
	topKnown = 12
	// topStay is how long a service is watched at least, and for how long after it no longer had half of what it takes.
	topStay = 30 * time.Minute
	// topMore is how much more another one must have to take its place after that.
	topMore = 2
)

func newTop() top {
	return top{growth: make(map[string]*alert.Growth), picks: make(map[string]*pick)}
}

func (t *top) has(name string) bool { return t.picks[name] != nil }

// names are those that are chosen.
func (t *top) names() []string { return slices.Sorted(maps.Keys(t.picks)) }

// why says why one was chosen, "" of another.
func (t *top) why(name string) string {
	if p := t.picks[name]; p != nil {
		return p.why
	}
	return ""
}

// choose looks at a pass. Those that rules have watched come first, and take part of the room that max_watched gives.
func (t *top) choose(c *Config, b *book, now time.Time) {
	ruled, _ := c.watched()
	room := c.roomForTop()
	if room == 0 {
		clear(t.picks)
		clear(t.growth)
		return
	}
	for name := range t.growth {
		if b.totals[name] == nil {
			delete(t.growth, name)
		}
	}
	var able []candidate
	for name, s := range b.services {
		if slices.Contains(ruled, name) || !b.isRoots(name) {
			delete(t.picks, name)
			delete(t.growth, name)
			continue
		}
		able = append(able, t.look(c, s, now))
	}
	t.rank(c, able, room, now)
}

// isRoots reports whether a service of this pass is one that nobody but root has named, and not the agent's own.
func (b *book) isRoots(name string) bool {
	t := b.totals[name]
	return t.user == 0 && !t.own && name != otherServices
}

// look is what a service has now.
func (t *top) look(c *Config, s *Service, now time.Time) candidate {
	if c.WatchTopBy == TopByRSS {
		return candidate{name: s.Name, bytes: float64(s.RSS)}
	}
	g := t.growth[s.Name]
	if g == nil {
		g = new(alert.Growth)
		t.growth[s.Name] = g
	}
	if s.Unread == 0 { // else it can't be told
		g.Add(now, float64(s.Anon+s.Swap), c.Interval, max(topSpan, topKnown*c.Interval))
	}
	grown, known := g.Grown()
	if known < topKnown*c.Interval {
		grown = 0
	}
	return candidate{s.Name, grown, known}
}

// rank decides which services are watched from now on.
func (t *top) rank(c *Config, able []candidate, room int, now time.Time) {
	slices.SortFunc(able, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.name, y.name))
	})
	has := make(map[string]float64, len(able))
	for i := range able {
		has[able[i].name] = able[i].bytes
	}
	least := float64(c.WatchTopLeast)
	for name, p := range t.picks {
		if has[name] >= least/2 {
			p.good = now
		} else if now.Sub(p.good) >= topStay { // it may be restarting, until then
			delete(t.picks, name)
		}
	}
	for len(t.picks) > room { // another configuration has less
		delete(t.picks, t.weakest(has, now, 0))
	}
	for i := range able {
		x := &able[i]
		if x.bytes < least {
			break
		}
		if t.has(x.name) {
			continue
		}
		if len(t.picks) == room {
			last := t.weakest(has, now, topStay)
			if last == "" || x.bytes < topMore*has[last] {
				break
			}
			delete(t.picks, last)
		}
		t.picks[x.name] = &pick{since: now, good: now, why: x.why()}
	}
}

// weakest is the one with least, of those that have been there for so long; "" where none has.
func (t *top) weakest(has map[string]float64, now time.Time, least time.Duration) (name string) {
	for _, x := range t.names() {
		if now.Sub(t.picks[x].since) >= least && (name == "" || has[x] < has[name]) {
			name = x
		}
	}
	return name
}

// why says why it is chosen.
func (x *candidate) why() string {
	if x.known == 0 {
		return "watch_top: " + threshold.SizeText(x.bytes) + " resident"
	}
	return fmt.Sprintf("watch_top: it has grown most, by %s in %s", threshold.SizeText(x.bytes),
		short(x.known.Round(time.Second)))
}
