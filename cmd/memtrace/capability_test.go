//go:build linux && !viewer

package main

import (
	"strings"
	"testing"
)

// TestRemedy: it names all capabilities in one command, since setcap replaces what
// was there, and none where it would do nothing or harm.
func TestRemedy(t *testing.T) {
	all := uint64(1<<64 - 1)
	has := func(s surroundings) string { return strings.Join(s.remedy(), "\n") }
	own := surroundings{sets: capabilitySets{bounding: all}, path: "/opt/mem trace", group: 42}
	text := has(own)
	for _, c := range needed() {
		if !strings.Contains(text, strings.ToLower(c.name)) {
			t.Errorf("the command lacks %s:\n%s", c.name, text)
		}
	}
	if strings.Count(text, "sudo setcap") != 1 || !strings.Contains(text, "chown root:42 '/opt/mem trace'") || !strings.Contains(text, "chmod 0750") {
		t.Errorf("%s", text)
	}
	barred := own
	barred.sets.bounding &^= 1 << 39
	barred.sets.bounding &^= 1 << capSysAdmin
	for name, s := range map[string]surroundings{
		"outside of the bounding set": barred, "no_new_privs": {sets: own.sets, noNew: true}, "nosuid": {sets: own.sets, nosuid: true}, "user namespace": {sets: own.sets, inUserSpace: true},
	} {
		if text := has(s); strings.Contains(text, "sudo setcap") || !strings.Contains(text, "remedy") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if text := has(barred); !strings.Contains(text, "--cap-add=BPF") || !strings.Contains(text, "--cap-add=SYS_PTRACE") {
		t.Errorf("%s", text)
	}
	if text := has(surroundings{sets: capabilitySets{all, all}}); text != "" {
		t.Errorf("where all is there: %s", text)
	}
	// CAP_SYS_ADMIN stands for three, and not for the others.
	if got := capabilityNames(missingFrom(1 << capSysAdmin)); strings.Contains(got, "CAP_BPF") || !strings.Contains(got, "CAP_SYS_PTRACE") {
		t.Errorf("missing beside CAP_SYS_ADMIN: %s", got)
	}
}

func TestShellQuote(t *testing.T) {
	for text, want := range map[string]string{"/a/b-1.2": "/a/b-1.2", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "": "''", "a\nb": "'a\nb'"} {
		if got := shellQuote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
