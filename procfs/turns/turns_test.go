package turns

import (
	"testing"
	"time"
)

// Ten users who take what they get, and give nothing back, leave turns for others, and for root.
func TestTurnsOfHostileUsers(t *testing.T) {
	turns := New(64)
	for user := range uint32(10) {
		n := 0
		for turns.Take(1000 + user) {
			n++
		}
		if n == 0 {
			t.Errorf("user %d of ten gets no turn", user)
		}
	}
	if !turns.Take(5000) {
		t.Error("nothing is left for another user")
	}
	if !turns.Take(0) {
		t.Error("nothing is left for root")
	}
}

// One user gets a quarter, root all, and what is given back is there again.
func TestTurnsComeBack(t *testing.T) {
	turns := New(64)
	take := func(user uint32) (n int) {
		for turns.Take(user) {
			n++
		}
		return n
	}
	give := func(user uint32, n int) {
		for range n {
			turns.Give(user)
		}
	}
	n := take(1000)
	if n != 16 {
		t.Errorf("one user gets %d of 64", n)
	}
	root := take(0)
	if root != 64-n {
		t.Errorf("root gets %d of %d", root, 64-n)
	}
	give(0, root)
	give(1000, n)
	if again := take(1000); again != n || len(turns.users) != 1 {
		t.Errorf("%d turns came back of %d", again, n)
	}
}

// A user whose processes don't answer is not waited for again and again. Others, and root, are.
func TestPatience(t *testing.T) {
	turns := New(1)
	waited := 0
	for range 100 {
		if turns.Waits(1000) {
			waited++
			turns.Late(1000)
		}
		turns.Late(0)
	}
	if waited != patience || !turns.Waits(1001) || !turns.Waits(0) {
		t.Errorf("one was waited for %d times, another is %v, root %v", waited, turns.Waits(1001), turns.Waits(0))
	}
}

// What came late is forgiven one by one.
func TestLatenessPasses(t *testing.T) {
	now := time.Now()
	l := lateness{count: patience, at: now}
	for _, is := range []struct {
		after time.Duration
		count int
	}{{0, 4}, {forgiven - 1, 4}, {forgiven, 3}, {3*forgiven + 1, 1}, {4 * forgiven, 0}, {1 << 62, 0}} {
		if got := l.now(now.Add(is.after)).count; got != is.count {
			t.Errorf("after %v %d are left of %d, want %d", is.after, got, patience, is.count)
		}
	}
	if next := l.now(now.Add(forgiven + forgiven/2)).now(now.Add(2 * forgiven)); next.count != 2 {
		t.Errorf("two looks forgive otherwise than one: %+v", next)
	}
}
