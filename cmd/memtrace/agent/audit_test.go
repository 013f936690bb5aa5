package agent

import (
	"bytes"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
			a.read(auditEntry{Service: "shop", From: "127.0.0.1", Path: pprofPath})
			a.read(auditEntry{Service: "shop", From: "127.0.0.1", Path: pprofPath, By: "eve"})
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
