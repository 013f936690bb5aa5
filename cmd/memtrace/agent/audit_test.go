package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func entriesOf(t *testing.T, path string) (all []auditEntry) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e auditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time.IsZero() {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// Entries are appended to what is there, in a file of the agent's own and in its log. Who reads the same again and again is
// noted once.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	for range 2 { // agents
		a := newAudit(log.New(&said, "", 0))
		a.open(dir)
		a.write(auditEntry{What: auditTrace, Service: "shop", PID: 7, Program: "shopd", Why: "rule shop: growth"})
		for range 3 {
			a.read(auditEntry{What: auditRead, Service: "shop", From: "127.0.0.1", Path: pprofPath})
			a.read(auditEntry{What: auditRead, Service: "shop", From: "127.0.0.1", Path: pprofPath, By: "eve"})
		}
	}
	all := entriesOf(t, filepath.Join(dir, auditFile))
	if len(all) != 6 || all[3].PID != 7 || all[3].Program != "shopd" || all[1].What != auditRead || all[2].By != "eve" {
		t.Errorf("%+v", all)
	}
	if n := strings.Count(said.String(), "audit: {"); n != 6 {
		t.Errorf("%d entries in the log: %s", n, said.String())
	}
	if info, err := os.Stat(filepath.Join(dir, auditFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What can't be written is counted, and is in the log.
func TestAuditWithoutADisk(t *testing.T) {
	var said bytes.Buffer
	a := newAudit(log.New(&said, "", 0))
	a.open(filepath.Join(t.TempDir(), "gone"))
	a.write(auditEntry{What: auditTrace, Service: "one"})
	a.write(auditEntry{What: auditTrace, Service: "two"})
	if a.missed() != 2 || !strings.Contains(said.String(), `"two"`) || strings.Count(said.String(), "write the audit log") != 1 {
		t.Errorf("%d lost; %s", a.missed(), said.String())
	}
}

// What is written to a disk that is full, or after an agent that was killed in the midst of a line, leaves lines that
// are whole.
func TestAuditHasWholeLines(t *testing.T) {
	dir, path := os.Getenv("MEMTRACE_AUDIT_TEST"), ""
	if dir != "" { // the child below
		writeToALimit(t, dir)
		return
	}
	dir = t.TempDir()
	path = filepath.Join(dir, auditFile)
	child := exec.Command(os.Args[0], "-test.run=^TestAuditHasWholeLines$")
	child.Env = append(os.Environ(), "MEMTRACE_AUDIT_TEST="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := entriesOf(t, path)
	if len(all) != 2 || all[0].Service != "one" || all[1].Service != "three" {
		t.Errorf("%+v", all)
	}
	half := []byte(`{"time":"2026-11-2`)
	if err := os.WriteFile(path, half, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAudit(log.New(io.Discard, "", 0))
	a.open(dir)
	a.write(auditEntry{What: auditTrace, Service: "next"})
	text, err := os.ReadFile(path)
	rest, ok := bytes.CutPrefix(text, append(half, '\n'))
	var e auditEntry
	if err != nil || !ok || json.Unmarshal(rest, &e) != nil || e.Service != "next" {
		t.Errorf("%s, %v", text, err)
	}
}

// writeToALimit writes three entries. The second has room for its first bytes alone.
func writeToALimit(t *testing.T, dir string) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	a := newAudit(log.New(io.Discard, "", 0))
	a.open(dir)
	a.write(auditEntry{What: auditTrace, Service: "one"})
	info, err := os.Stat(filepath.Join(dir, auditFile))
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		service string
		limit   uint64
		missed  uint64
	}{{"two", uint64(info.Size()) + 20, 1}, {"three", limit.Max, 1}} {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: step.limit, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		a.write(auditEntry{What: auditTrace, Service: step.service})
		if a.missed() != step.missed {
			t.Errorf("%s: %d are lost", step.service, a.missed())
		}
	}
}

// Who asks from ever new addresses has so many entries, and then one for them all in an hour. Others have an entry of
// their own again once the hour is over.
func TestManyReaders(t *testing.T) {
	a := newAudit(log.New(io.Discard, "", 0))
	now, entries := time.Unix(0, 0), 0
	ask := func(from string, at time.Time) (e auditEntry, again bool) {
		e = auditEntry{What: auditRead, Service: "shop", From: from}
		if again = a.again(&e, at); !again {
			entries++
		}
		return e, again
	}
	for i := range 10 * maxReaders {
		ask(fmt.Sprintf("127.0.%d.%d", i/256, i%256), now)
	}
	if entries != maxReaders+1 || len(a.readers) != maxReaders+1 {
		t.Errorf("%d entries of %d readers", entries, len(a.readers))
	}
	if e, again := ask("127.0.0.0", now); !again || e.Why != "" {
		t.Errorf("one that has an entry has another: %+v", e)
	}
	if e, again := ask("10.0.0.1", now.Add(sameReader)); again || e.From != "10.0.0.1" {
		t.Errorf("an hour later: %+v, %v", e, again)
	}
}

// A file that is large becomes the old one.
func TestAuditTurns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, auditFile)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxAudit+1); err != nil {
		t.Fatal(err)
	}
	a := newAudit(log.New(&bytes.Buffer{}, "", 0))
	a.open(dir)
	a.write(auditEntry{What: auditTrace, Service: "x"})
	if all := entriesOf(t, path); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if info, err := os.Stat(path + ".old"); err != nil || info.Size() != maxAudit+1 {
		t.Errorf("%v", err)
	}
}
