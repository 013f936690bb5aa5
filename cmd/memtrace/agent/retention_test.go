package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tracedAt makes a trace of so many bytes that was written last at a time.
func tracedAt(t *testing.T, h *history, service string, at time.Time, size int) string {
	t.Helper()
	path, err := h.beginTrace(service, at)
	h.endTrace()
	if err == nil {
		err = os.WriteFile(path, make([]byte, size), 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, at, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func sizesOf(t *testing.T, h *history, service string) string {
	t.Helper()
	all, err := h.recordings(service)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprint(s.Kind, " ", s.Size))
	}
	return strings.Join(out, ", ")
}

// Traces of a service and recordings of its growth go by the same limits, the oldest first, whichever they are. The trace
// that is being written stays.
func TestTracesCountWithGrowth(t *testing.T) {
	h, now, c := opened(t), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Default()
	c.KeepTime, c.KeepSize = 10*time.Hour, 100
	hours := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Hour) }
	tracedAt(t, h, "x", hours(12), 1)
	recorded(t, h, "x", hours(11), 2)
	recorded(t, h, "x", hours(5), 30)
	tracedAt(t, h, "x", hours(4), 40)
	recorded(t, h, "x", hours(3), 50)
	if is := sizesOf(t, h, "x"); is != "trace 1, growth 2, growth 30, trace 40, growth 50" {
		t.Errorf("before: %s", is)
	}
	if size, removed, err := h.prune("x", "", &c, now); size != 90 || removed != 3 || err != nil || sizesOf(t, h, "x") != "trace 40, growth 50" {
		t.Errorf("%d bytes are left, %d recordings removed; %v; %s", size, removed, err, sizesOf(t, h, "x"))
	}
	if all, err := h.segments("x"); err != nil || len(all) != 1 {
		t.Errorf("traces are no history of growth: %+v, %v", all, err)
	}
	path, err := h.beginTrace("x", hours(2))
	if err == nil {
		err = os.WriteFile(path, make([]byte, 200), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.prune("x", "", &c, now.Add(20*time.Hour)); err != nil || sizesOf(t, h, "x") != "trace 200" {
		t.Errorf("%v; %s", err, sizesOf(t, h, "x"))
	}
	h.endTrace()
	if _, _, err := h.prune("x", "", &c, now); err != nil || sizesOf(t, h, "x") != "" {
		t.Errorf("%v; %s", err, sizesOf(t, h, "x"))
	}
}

// A user's traces go before those of services that no rule names and that are root's, however long their names are.
func TestTracesOfUsersGoFirst(t *testing.T) {
	h, now, c := opened(t), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Default()
	c.KeepTime, c.KeepSize = 10*time.Hour, 100
	hours := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Hour) }
	long := ofUser(strings.Repeat("é", maxServiceName), 1000)
	tracedAt(t, h, "cron.service", hours(5), 60)
	tracedAt(t, h, long, hours(4), 30)
	tracedAt(t, h, ofUser("x", 1000), hours(3), 30)
	tracedAt(t, h, ofUser("x", unknownUser), hours(2), 30)
	tracedAt(t, h, "db.service", hours(1), 5)
	w := watches{history: h, log: log.New(io.Discard, "", 0)}
	w.prune(&c, now)
	for service, want := range map[string]string{
		"cron.service": "trace 60", long: "", ofUser("x", 1000): "", ofUser("x", unknownUser): "trace 30", "db.service": "trace 5",
	} {
		if is := sizesOf(t, h, service); is != want {
			t.Errorf("%s: %q is left, want %q", service, is, want)
		}
	}
	tracedAt(t, h, "db.service", now, 95)
	h.tracing = tracedAt(t, h, ofUser("y", 1001), now, 50) // none of root's goes for one that is being written
	w.pruneSoon.Store(true)
	w.prune(&c, now)
	h.endTrace()
	if root, users := sizesOf(t, h, "db.service"), sizesOf(t, h, ofUser("x", unknownUser)); root != "trace 5, trace 95" || users != "" {
		t.Errorf("%q and %q are left", root, users)
	}
	w.pruneSoon.Store(true)
	w.prune(&c, now)
	if root, users := sizesOf(t, h, "db.service"), sizesOf(t, h, ofUser("y", 1001)); root != "trace 5, trace 95" || users != "" {
		t.Errorf("once it has ended, %q and %q are left", root, users)
	}
}

// The first reload that asks for recordings opens their folder while others ask for recordings. The race detector looks
// on.
func TestRecordingsAreListedDuringAReload(t *testing.T) {
	a, c := &Agent{log: log.New(io.Discard, "", 0)}, Default()
	a.audit, c.Data = newAudit(a.log), t.TempDir()
	c.Services = []Rule{{Name: "shop", Growth: true}}
	listed := make(chan struct{})
	go func() {
		defer close(listed)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/services/shop/recordings", http.NoBody)
		a.serveRecordings(httptest.NewRecorder(), r)
	}()
	if err := a.watches.prepare(a, &c); err != nil {
		t.Fatal(err)
	}
	<-listed
	a.watches.history.close()
}

// All traces of services that no rule names take no more than one service may. A folder that has nothing left goes, but not the
// one of a trace that has just begun.
func TestTracesOfOthersShareARoom(t *testing.T) {
	h, now, c := opened(t), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Default()
	c.KeepTime, c.KeepSize, c.Services = 10*time.Hour, 100, []Rule{{Name: "shop"}}
	hours := func(n int) time.Time { return now.Add(-time.Duration(n) * time.Hour) }
	tracedAt(t, h, "shop", hours(9), 90)
	for i := range 5 {
		tracedAt(t, h, fmt.Sprintf("made up %d (user 1000)", i), hours(8-i), 40)
	}
	recorded(t, h, "made up 1 (user 1000)", hours(9), 50)
	path, err := h.beginTrace("../../etc", now)
	if err != nil || filepath.Dir(filepath.Dir(filepath.Dir(path))) != filepath.Join(h.dir, "services") {
		t.Fatalf("%s, %v", path, err)
	}
	w := watches{history: h, log: log.New(io.Discard, "", 0)}
	w.pruned = now // a moment ago
	w.pruneSoon.Store(true)
	w.prune(&c, now)
	for service, want := range map[string]string{
		"shop": "trace 90", "made up 0 (user 1000)": "", "made up 1 (user 1000)": "growth 50", "made up 2 (user 1000)": "",
		"made up 3 (user 1000)": "trace 40", "made up 4 (user 1000)": "trace 40",
	} {
		if is := sizesOf(t, h, service); is != want {
			t.Errorf("%s: %q is left, want %q", service, is, want)
		}
	}
	if _, err := os.Stat(h.folder("made up 0 (user 1000)")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		t.Errorf("the folder of a trace that begins: %v", err)
	}
	if w.leftovers() != 90+50+80 {
		t.Errorf("%d bytes are left", w.leftovers())
	}
}
