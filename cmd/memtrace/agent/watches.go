package agent

import (
	"cmp"
	"context"
	"log"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// watches are the services whose growth is watched.
type watches struct {
	history *history // nil: no configuration has asked for it yet. Other goroutines than the collecting one call folder
	audit   *audit
	log     *log.Logger
	config  func() *Config

	pruned    time.Time   // when old recordings of services that aren't watched were removed last
	pruneSoon atomic.Bool // a trace has left a recording

	mu       sync.Mutex
	all      map[string]*watch
	ending   []*watch
	omitted  int   // services that rules ask for beyond max_watched
	leftover int64 // bytes of recordings of services that aren't watched
	closed   bool
}

// pruneEvery is how often recordings of services that aren't watched are looked through, beside after each trace.
const pruneEvery = time.Hour

// prepare opens the folder for recordings, if a configuration is the first to need it, for growth or for traces.
func (w *watches) prepare(a *Agent, c *Config) error {
	w.audit, w.log, w.config = a.audit, a.log, a.config.Load
	if !c.watches() && !c.traces() || w.history != nil {
		return nil
	}
	h, err := openHistory(c.Data)
	if err != nil {
		return err
	}
	w.audit.open(h.dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = h
	return nil
}

// folder is where recordings are, nil where no configuration has asked for any yet. A reload may be the first to.
func (w *watches) folder() *history {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.history
}

// update tells each watch of its service's processes, begins those that rules ask for or that are among the top, and ends
// the others.
func (w *watches) update(c *Config, b *book, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	ruled, omitted := c.watched()
	names := slices.Concat(ruled, b.top.names())
	w.omitted = omitted
	if w.all == nil {
		w.all = make(map[string]*watch)
	}
	w.ending = slices.DeleteFunc(w.ending, (*watch).hasEnded)
	for name, x := range w.all {
		if !slices.Contains(names, name) {
			x.stop()
			delete(w.all, name)
			w.ending = append(w.ending, x)
		}
	}
	for _, name := range names {
		x := w.all[name]
		if x == nil {
			x = &watch{service: name, config: w.config, history: w.history, audit: w.audit, log: w.log}
			x.begin(context.Background())
			w.all[name] = x
		}
		x.want(byMemory(b.members[name], now), b.top.why(name))
	}
}

// prune removes what is too old or too much of services that aren't watched, or no longer. One goroutine calls it.
func (w *watches) prune(c *Config, now time.Time) {
	if soon := w.pruneSoon.Swap(false); w.history == nil || !soon && !w.pruned.IsZero() && now.Sub(w.pruned) < pruneEvery {
		return
	}
	w.pruned = now
	watched := make(map[string]bool)
	w.mu.Lock()
	for name := range w.all {
		watched[name] = true
	}
	for _, x := range w.ending { // they may write still
		watched[x.service] = true
	}
	w.mu.Unlock()
	size, removed, err := w.history.pruneOthers(watched, c, now)
	if err != nil {
		w.log.Printf("services that aren't watched: %v", err)
	}
	if removed > 0 {
		w.log.Printf("removed %d old recordings of services that aren't watched", removed)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leftover = size
}

// leftovers are the bytes of recordings of services that aren't watched.
func (w *watches) leftovers() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leftover
}

// stop ends all, and returns when their tracers have ended.
func (w *watches) stop() {
	w.mu.Lock()
	w.closed = true
	all := w.ending
	for _, x := range w.all {
		all = append(all, x)
	}
	w.mu.Unlock()
	for _, x := range all {
		x.stop()
	}
	for _, x := range all {
		<-x.done
	}
}

func (w *watches) close() {
	w.stop()
	w.history.close()
}

// of is a service's watch, nil if its growth isn't watched.
func (w *watches) of(service string) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[service]
}

// list is all that are watched, by name, and how many more rules ask for.
func (w *watches) list() (all []*watch, omitted int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.all {
		all = append(all, x)
	}
	slices.SortFunc(all, func(x, y *watch) int { return cmp.Compare(x.service, y.service) })
	return all, w.omitted
}
