// Package turns divides a fixed number of turns between users, so that no user's processes take those that others' need.
// Who reads a process's memory, or asks it something, does so in a goroutine that may wait as long as that process's
// owner likes (userfaultfd, FUSE): it takes a turn first, and gives it back when it has its answer.
package turns

import (
	"sync"
	"time"
)

// share: a user other than root has no more than one in so many of the turns that are left. The first user gets most,
// but the next one always gets some: with 64 turns, ten users leave one for an eleventh.
const share = 3

// patience is how many turns of a user other than root are waited for in vain, and one more for each forgiven that
// passes: a machine that was busy once is not held against a user for good.
const (
	patience = 4
	forgiven = 5 * time.Minute
)

// Turns may be used from several goroutines.
type Turns struct {
	mu    sync.Mutex
	left  int
	users map[uint32]int // that they have
	late  map[uint32]lateness
}

// A lateness is how many turns of a user's were waited for in vain, as of a time.
type lateness struct {
	count int
	at    time.Time
}

// now is what is left of it after a while.
func (l lateness) now(now time.Time) lateness {
	n := int(min(now.Sub(l.at)/forgiven, time.Duration(l.count)))
	if l.count -= n; l.count == 0 {
		return lateness{at: now}
	}
	l.at = l.at.Add(time.Duration(n) * forgiven)
	return l
}

// New has so many turns.
func New(most int) *Turns {
	return &Turns{left: most, users: make(map[uint32]int), late: make(map[uint32]lateness)}
}

// Late notes that a turn of a user's was waited for in vain.
func (t *Turns) Late(user uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.late[user].now(time.Now())
	l.count = min(patience, l.count+1)
	t.late[user] = l
}

// Waits reports whether a turn of a user's is worth waiting for: others wait meanwhile, too. It is not for a while after
// a few that came late; what these bring serves the next time.
func (t *Turns) Waits(user uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return user == 0 || t.late[user].now(time.Now()).count < patience
}

// Take takes a turn for a process of a user; false: there is none, or the user has had enough. Root may take all.
func (t *Turns) Take(user uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == 0 || user != 0 && t.users[user] >= (t.left+share-1)/share {
		return false
	}
	t.left--
	t.users[user]++
	return true
}

// Give gives it back.
func (t *Turns) Give(user uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left++
	if t.users[user]--; t.users[user] == 0 {
		delete(t.users, user)
	}
}
