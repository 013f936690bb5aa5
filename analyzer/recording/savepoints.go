package recording

import (
	"maps"
	"slices"
	gosync "sync"
	"time"

	"github.com/memtrace/memtrace/analyzer"
)

// Savepoints are what was known at some instants of a recording, from having played it: whoever plays it again begins at
// the last one before what is asked for, and comes to the same. They are for all Readers of one file whose analyzers
// are of one Config, but for their Observers, and may be used by several goroutines.
type Savepoints struct {
	room  uint64 // for all of them, bytes
	least uint64 // events from one to the next

	mu    gosync.Mutex
	list  []*savepoint // by their block
	used  uint64
	every uint64        // events from one to the next, now; 0: nothing was played yet
	took  time.Duration // that the last one took to make
}

// NewSavepoints keeps them within about room bytes of memory, at least so many events apart.
func NewSavepoints(room, least uint64) *Savepoints { return &Savepoints{room: room, least: least} }

const (
	// mostSavepoints is how many there are to be in a recording: from one to the next it is played in a moment.
	mostSavepoints = 64
	// savepointShare is how much longer is played, at least, from one to the next than the making of one takes.
	savepointShare = 4
)

// A savepoint is a player before a block.
type savepoint struct {
	block    int
	events   uint64              // in the blocks before
	analyzer *analyzer.Savepoint // nil: it is still being made
	player   player              // without what it played from and to
	latest   uint64              // no input before the block is of a later time
	unknown  int                 // Reader.unknown
}

// before is the last savepoint that tells all about what comes after an instant; nil: there is none.
func (s *Savepoints) before(at uint64) *savepoint {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range slices.Backward(s.list) {
		if one.analyzer != nil && one.latest <= at {
			return one
		}
	}
	return nil
}

// claim returns the savepoint that a player is to make before a block; nil: none, as there is one nearby or it would take too long.
func (s *Savepoints) claim(block int, p *player) *savepoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.every == 0 {
		s.every = max(s.least, p.reader.total/mostSavepoints)
	}
	if s.room == 0 || time.Since(p.saved) < savepointShare*s.took {
		return nil
	}
	for _, one := range s.list {
		if max(one.events, p.done)-min(one.events, p.done) < s.every {
			return nil
		}
	}
	one := &savepoint{block: block, events: p.done}
	i, _ := slices.BinarySearchFunc(s.list, block, func(x *savepoint, block int) int { return x.block - block })
	s.list = slices.Insert(s.list, i, one)
	return one
}

// offer has a player that stands before a block keep what it knows, if it is time for that.
func (s *Savepoints) offer(block int, p *player) {
	if s == nil || p.late {
		return
	}
	one := s.claim(block, p)
	if one == nil {
		return
	}
	began := time.Now()
	made := p.analyzer.Savepoint()
	s.mu.Lock()
	defer s.mu.Unlock()
	one.player, one.latest, one.unknown = p.kept(), p.last, p.reader.unknown
	for _, g := range p.gaps {
		one.latest = max(one.latest, g.First)
	}
	one.analyzer, p.saved = made, time.Now()
	s.took = p.saved.Sub(began)
	s.used += made.Bytes()
	s.shrink()
}

// shrink lets go of every second savepoint while they take too much.
func (s *Savepoints) shrink() {
	for s.used > s.room {
		s.every *= 2
		made := 0
		for i := len(s.list) - 1; i >= 0; i-- {
			one := s.list[i]
			if one.analyzer == nil {
				continue
			}
			if made++; made%2 == 0 {
				s.drop(i)
			}
		}
		if made == 1 { // not even one has room
			s.room = 0
			s.drop(slices.IndexFunc(s.list, func(one *savepoint) bool { return one.analyzer != nil }))
		}
	}
}

func (s *Savepoints) drop(i int) {
	s.used -= s.list[i].analyzer.Bytes()
	s.list = slices.Delete(s.list, i, i+1)
}

// kept is what a player knows beside its analyzer.
func (p *player) kept() player {
	out := *p
	out.reader, out.analyzer, out.told = nil, nil, nil
	out.gaps, out.held.last = slices.Clone(p.gaps), maps.Clone(p.held.last)
	return out
}

// resume has a player go on from a savepoint, and returns the block that comes next. After an error the player is as
// before.
func (p *player) resume(s *savepoint) (int, error) {
	if err := p.analyzer.Restore(s.analyzer); err != nil {
		return 0, err
	}
	next := s.player.kept()
	next.reader, next.analyzer, next.told, next.until, next.since = p.reader, p.analyzer, p.told, p.until, p.since
	next.saved = time.Now()
	*p = next
	p.reader.unknown = s.unknown
	return s.block, nil
}
