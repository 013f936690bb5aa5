package alert

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// hysteresis is by which part of its limit a figure has to be back before it counts as within it.
const hysteresis = 0.05

// A Book keeps what became of rules, by service.
type Book struct {
	rules   []Rule
	entries map[id]*entry
	courses map[id]*course
	seen    map[string]bool // what rules name, of which services have been there
	states  atomic.Pointer[[]State]
	ended   []Change // by another configuration
}

// id is a rule and a service, "" for the machine.
type id struct{ rule, service string }

// entry is what is known of a rule and a service.
type entry struct {
	firing  bool
	since   time.Time // when it began to be otherwise; zero: it isn't
	fired   time.Time
	value   float64
	unknown error
	seen    bool // in this pass
}

// State is a rule of a service as it is now.
type State struct {
	Alert    string    `json:"alert"`
	Service  string    `json:"service,omitempty"`
	When     string    `json:"when"`
	State    string    `json:"state"` // within, pending, firing
	Since    time.Time `json:"since"` // of pending and firing
	Figure   float64   `json:"figure"`
	Unit     string    `json:"unit"`
	Unknown  string    `json:"unknown,omitempty"` // why the figure can't be told at present: the state is that from before
	Severity string    `json:"severity"`
}

// What a State is.
const (
	Within  = "within"
	Pending = "pending"
	Firing  = "firing"
)

// Change is an alert that has begun to fire, or is over.
type Change struct {
	Rule    *Rule
	Service string
	Firing  bool
	Began   time.Time
	Ended   time.Time // zero while it fires
	Figure  float64
	Known   bool     // Figure is
	Sites   []string // lines of code with most growth, where they are known
}

// NewBook keeps rules that are prepared.
func NewBook(rules []Rule) *Book {
	b := &Book{entries: make(map[id]*entry), courses: make(map[id]*course), seen: make(map[string]bool)}
	b.states.Store(&[]State{})
	b.rules = rules
	return b
}

// Reload takes other rules over. A rule of the same name and condition goes on; what fires by one that is gone is over
// at the next Check.
func (b *Book) Reload(rules []Rule, now time.Time) {
	keys := make(map[string]bool)
	for i := range rules {
		keys[rules[i].key()] = true
	}
	for i := range b.rules {
		r := &b.rules[i]
		for at, e := range b.entries {
			if at.rule == r.key() && !keys[at.rule] && e.firing {
				b.ended = append(b.ended, Change{Rule: r, Service: at.service, Began: e.fired, Ended: now})
			}
		}
	}
	for at := range b.entries {
		if !keys[at.rule] {
			delete(b.entries, at)
		}
	}
	for at := range b.courses {
		if !keys[at.rule] {
			delete(b.courses, at)
		}
	}
	b.rules = rules
}

// States is what the last Check left, by rule and service. Nobody may change it.
func (b *Book) States() []State { return *b.states.Load() }

// Check takes a pass in, and returns what begins to fire or is over, by rule.
func (b *Book) Check(f *Figures) []Change {
	changes := b.ended
	b.ended = nil
	for _, e := range b.entries {
		e.seen = false
	}
	for i := range b.rules {
		changes = append(changes, b.rules[i].check(b, f)...)
	}
	b.publish()
	return changes
}

// check looks at a rule for each service that it is about.
func (r *Rule) check(b *Book, f *Figures) (changes []Change) {
	if r.condition.Subject == "" {
		return b.look(r, f, nil, "")
	}
	for i := range f.Services {
		if s := &f.Services[i]; r.covers(s.Name) {
			b.seen[r.condition.Subject] = true
			changes = append(changes, b.look(r, f, s, s.Name)...)
		}
	}
	return append(changes, b.absent(r, f)...)
}

// absent looks at services that have no processes now.
func (b *Book) absent(r *Rule, f *Figures) (changes []Change) {
	if name := r.condition.Subject; !isPattern(name) {
		if e := b.entries[id{r.key(), name}]; e == nil || !e.seen {
			changes = b.look(r, f, &Service{Name: name, Grown: new(uint64)}, name)
		}
		return changes
	}
	var gone []string
	for at, e := range b.entries {
		if at.rule == r.key() && !e.seen {
			gone = append(gone, at.service)
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		at := id{r.key(), name}
		e := b.entries[at]
		e.seen, e.unknown = true, nil
		if changed := e.move(false, f.At, r.holdsFor()); changed {
			changes = append(changes, Change{Rule: r, Service: name, Began: e.fired, Ended: f.At})
		}
		if !e.firing {
			delete(b.entries, at)
			delete(b.courses, at)
		}
	}
	return changes
}

// look reads the figure, and moves on. s is nil for the machine.
func (b *Book) look(r *Rule, f *Figures, s *Service, service string) []Change {
	at := id{r.key(), service}
	e := b.entries[at]
	if e == nil {
		e = &entry{}
		b.entries[at] = e
	}
	e.seen = true
	is, err := b.read(r, f, s, at)
	var met bool
	if err == nil {
		met, err = r.met(is, e.firing)
	}
	e.unknown = err
	if err != nil {
		return nil
	}
	e.value = is.value
	if !e.move(met, f.At, r.holdsFor()) {
		return nil
	}
	c := Change{Rule: r, Service: service, Firing: e.firing, Began: e.fired, Figure: is.value, Known: true}
	if !e.firing {
		c.Ended = f.At
	} else if s != nil && s.Sites != nil {
		c.Sites = s.Sites()
	}
	return []Change{c}
}

var (
	errNoService = errors.New("there has been no service of this name")
	errOmitted   = errors.New("it may be among the services that are summed in other: name it by a rule, " +
		"or raise max_services")
)

// read is a figure, also one over a time.
func (b *Book) read(r *Rule, f *Figures, s *Service, at id) (reading, error) {
	if s != nil && s.Processes == 0 {
		switch {
		case f.Omitted > 0:
			return reading{}, errOmitted
		case !b.seen[r.condition.Subject] && r.condition.Metric != "processes":
			return reading{}, errNoService
		}
	}
	is, err := r.figure.read(f, s)
	if err != nil || !r.figure.course {
		return is, err
	}
	c := b.courses[at]
	if c == nil {
		c = &course{}
		b.courses[at] = c
	}
	c.add(f.At, is.value, r.over())
	if r.figure.unit == Count {
		return reading{value: c.counted(is.value)}, nil
	}
	rate, err := c.rate(r.over())
	return reading{value: rate}, err
}

// met reports whether a figure meets the condition. What fires does so until the figure is back by a part of
// its limit; a count has no such part. A sum that lacks some processes can say that it is above, and nothing else.
func (r *Rule) met(is reading, firing bool) (bool, error) {
	limit := r.figure.limit
	switch margin := limit * hysteresis; {
	case r.figure.unit == Count:
	case firing && r.condition.Op.Falling():
		limit += margin
	case firing:
		limit -= margin
	}
	met := r.condition.Compare(is.value, limit)
	if is.partial && met == r.condition.Op.Falling() {
		return false, errUnread
	}
	return met, nil
}

// move goes over to the other state once that has lasted for long enough.
func (e *entry) move(met bool, now time.Time, holds time.Duration) (changed bool) {
	if met == e.firing {
		e.since = time.Time{}
		return false
	}
	if e.since.IsZero() {
		e.since = now
	}
	if now.Sub(e.since) < holds {
		return false
	}
	if e.firing, e.since = met, (time.Time{}); met {
		e.fired = now
	}
	return true
}

// publish says how it stands.
func (b *Book) publish() {
	states := make([]State, 0, len(b.entries))
	for i := range b.rules {
		r := &b.rules[i]
		for at, e := range b.entries {
			if at.rule == r.key() {
				states = append(states, r.state(at.service, e))
			}
		}
	}
	slices.SortFunc(states, func(x, y State) int {
		return cmp.Or(cmp.Compare(x.Alert, y.Alert), cmp.Compare(x.Service, y.Service))
	})
	b.states.Store(&states)
}

func (r *Rule) state(service string, e *entry) State {
	s := State{
		Alert: r.Name, Service: service, When: r.When, State: Within, Figure: e.value,
		Unit: r.figure.unit.String(), Severity: r.severity(),
	}
	switch {
	case e.firing:
		s.State, s.Since = Firing, e.fired
	case !e.since.IsZero():
		s.State, s.Since = Pending, e.since
	}
	if e.unknown != nil {
		s.Unknown = e.unknown.Error()
	}
	return s
}
