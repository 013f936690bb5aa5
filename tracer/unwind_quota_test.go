package tracer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/unwind"
)

// drainQuota has an account take all that it may.
func drainQuota(l *quota, a account) (taken uint64) {
	for l.take(a, 1) {
		taken++
	}
	return taken
}

// Whatever users take, the next one and root find something.
func TestLedgerLeavesRoom(t *testing.T) {
	const total = 16384
	l := newQuota(total)
	alone := drainQuota(l, account{uid: 1})
	system := drainQuota(l, account{uid: 1}.forSystem())
	if alone != total*3/8/4 || system != total/2/3 {
		t.Errorf("a user alone may have %d of %d, and %d of what root has installed", alone, total, system)
	}
	for uid := range uint32(9) {
		drainQuota(l, account{uid: 2 + uid})
		drainQuota(l, account{uid: 2 + uid}.forSystem())
	}
	if own, system := drainQuota(l, account{uid: 20}), drainQuota(l, account{uid: 20}.forSystem()); own < 64 || system < 32 {
		t.Errorf("after ten others a user may have %d, and %d of what root has installed", own, system)
	}
	if left := drainQuota(l, root); left < total/8 {
		t.Errorf("%d of %d are left for root", left, total)
	}
	if l.take(root, 1) || l.all != total {
		t.Errorf("%d of %d are taken", l.all, total)
	}
}

// What is given back may be taken again; what was charged beyond a share takes no other's.
func TestLedgerGivesBack(t *testing.T) {
	l := newQuota(800)
	a, b := account{uid: 1}, account{uid: 2}
	if !l.take(a, 75) || l.take(a, 1) {
		t.Errorf("%v has %d", a, l.used[a])
	}
	l.give(a, 75)
	l.charge(a, 400) // by then others have left it
	if l.take(a, 1) || l.room(b) != 0 || l.room(b.forSystem()) == 0 || l.room(root) != 400 {
		t.Errorf("%d, %d and %d are left", l.room(b), l.room(b.forSystem()), l.room(root))
	}
	l.give(a, 400)
	if len(l.used) != 0 || l.all != 0 || l.room(a) != 75 {
		t.Errorf("%v, %d: something is left of what was given back", l.used, l.all)
	}
}

// One user's files take no more than their time, and no other's.
func TestEffortIsPaidBack(t *testing.T) {
	now := time.Unix(0, 0)
	e := newEffort(func() time.Time { return now })
	a, b := account{uid: 1}, account{uid: 2}
	bad := errors.New("malformed")
	files := 0
	for e.left(a) && files < 1000 {
		e.spend(a, 8<<20, nil, bad)
		files++
	}
	if files == 0 || files > 64 || !e.left(b) || !e.left(root) {
		t.Errorf("%d files; others may go on: %v, root: %v", files, e.left(b), e.left(root))
	}
	now = now.Add(3 * time.Second)
	if !e.left(a) {
		t.Error("nothing is paid back")
	}
	for range 10_000 {
		e.spend(b, 0, nil, unwind.ErrNoTables)
		e.spend(root, 1<<40, nil, nil)
	}
	if !e.left(b) || !e.left(root) {
		t.Error("small files, or root's, have no time")
	}
	for uid := range uint32(2 * maxAccounts) {
		e.spend(account{uid: uid}, 0, nil, bad)
		now = now.Add(2 * time.Second)
	}
	if len(e.spent) > maxAccounts {
		t.Errorf("%d users are remembered", len(e.spent))
	}
}

// One user's lines leave room for others'.
func TestProblemsOfOneUser(t *testing.T) {
	p := newProblems()
	a := account{uid: 1}
	for i := range 1000 {
		p.add(a, fmt.Sprintf("file %d", i))
		p.add(account{uid: 100 + uint32(i)}, "the same of all")
	}
	for uid := range uint32(200) {
		p.add(account{uid: 1000 + uid}, fmt.Sprintf("user %d", uid))
	}
	p.add(root, "root's")
	text := strings.Join(p.lines, "\n")
	if len(p.lines) > maxProblems+maxMore+1 || !strings.HasSuffix(text, "\nroot's") || strings.Count(text, "the same of all") != 1 ||
		!strings.Contains(text, "more code of user 1 than is named here") || !strings.Contains(text, "code of more users") {
		t.Errorf("%d lines:\n%s", len(p.lines), text)
	}
}

// Who is charged for a file is what the kernel says of it, and of who maps it.
func TestAccountOfAFile(t *testing.T) {
	user, other := account{uid: 1000}, account{uid: 1001}
	file := func(uid, mode uint32, fuse, suid bool) *fileFacts {
		return &fileFacts{stat: unix.Stat_t{Uid: uid, Mode: unix.S_IFREG | mode}, fuse: fuse, suid: suid}
	}
	for _, c := range []struct {
		name   string
		file   *fileFacts
		mapper account
		want   account
	}{
		{"root's, by root", file(0, 0o755, false, true), root, root},
		{"root's, by a user", file(0, 0o755, false, true), user, user.forSystem()},
		{"root's where others may write", file(0, 0o757, false, true), user, user},
		{"root's, where a user may mount", file(0, 0o755, false, false), user, user},
		{"root's, so it says", file(0, 0o755, true, true), user, user},
		{"root's, so it says, by root", file(0, 0o755, true, true), root, nobody},
		{"a user's", file(1000, 0o755, false, true), user, user},
		{"another's", file(1001, 0o755, false, true), user, user},
		{"another's, by root", file(1001, 0o755, false, true), root, other},
	} {
		if got := c.file.account(c.mapper); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := processAccount(os.Getpid()); got != (account{uid: uint32(os.Getuid())}) {
		t.Errorf("this process is %+v's", got)
	}
}

// A file that is written to is another one, also where its owner sets the time of that back.
func TestIdentityOfARewrittenFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	state := func() fileIdentity {
		facts, err := factsOf(f)
		if err != nil {
			t.Fatal(err)
		}
		return facts.identity()
	}
	when := time.Unix(1000, 0)
	seen := map[fileIdentity]bool{}
	for deadline := time.Now().Add(10 * time.Second); len(seen) < 3 && time.Now().Before(deadline); { // the kernel's clock has ticks
		if _, err := f.WriteAt(bytes.Repeat([]byte{byte(len(seen))}, 100), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f.Name(), when, when); err != nil {
			t.Fatal(err)
		}
		seen[state()] = true
	}
	if again := state(); len(seen) < 3 || again != state() {
		t.Errorf("%d states of a file that was written to", len(seen))
	}
}
