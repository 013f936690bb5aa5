//go:build integration && services

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// doctor --serve ends with 0 where the agent can do what it is to, also while one runs; with 1 where the
// configuration is wrong; with 77 where a user lacks what it takes. Nothing is made.
func TestDoctorOfServe(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self = openFolder(t, self)
	folder := filepath.Dir(self)
	config, data := filepath.Join(folder, "memtrace.yaml"), filepath.Join(folder, "data")
	none := filepath.Join(folder, "none") // systemd's files of this machine are nobody's here
	units := none
	doctorOf := func(before ...string) (said string, code int) {
		command := append(before, self, "doctor", "--serve")
		if config != "" {
			command = append(command, "--config", config)
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), asMemtrace+"=1", unitsIn+"="+units)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	doctor := func(text string, before ...string) (said string, code int) {
		if config != "" {
			if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return doctorOf(before...)
	}
	growth := fmt.Sprintf("listen: 127.0.0.1:0\nwatch_top: 2\ndata: %s\n", data)
	if said, code := doctor(growth); code != 0 || !strings.Contains(said, data+" is made at the start") {
		t.Errorf("as root: %d, %s", code, said)
	}
	if said, code := doctor(growth + "interval: 1ms\n"); code != exitFailed ||
		!strings.Contains(said, "line 4: interval: 1ms is not") {
		t.Errorf("with a wrong configuration: %d, %s", code, said)
	}
	units = folder
	unit := filepath.Join(folder, "etc/systemd/system", serviceUnitName)
	start := fmt.Sprintf("[Service]\nExecStart=%s serve --data %s/of-unit --config /none.yaml\n", self, folder)
	write := func(text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o755), os.WriteFile(unit, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(start)
	if said, code := doctor(growth); code != 0 || !strings.Contains(said, unit+" gives CAP_DAC_READ_SEARCH") {
		t.Errorf("as root, and a unit of root's: %d, %s", code, said)
	}
	write(start + "CapabilityBoundingSet=CAP_SYS_PTRACE\n")
	if said, code := doctor(growth); code != exitUnsupported || !strings.Contains(said, unit+" doesn't give CAP_DAC_READ_SEARCH") {
		t.Errorf("as root, and a unit without rights: %d, %s", code, said)
	}
	for more, want := range map[string]string{
		"SystemCallFilter=~bpf\n":               "SystemCallFilter= of " + unit + " refuses bpf",
		"PrivateUsers=yes\n":                    "PrivateUsers= of " + unit + " keeps its capabilities from counting",
		"MemoryMax=9M\n":                        "MemoryMax of " + unit + " is 9 MiB; with 2 tracers",
		"InaccessiblePaths=" + folder + "\n":    "InaccessiblePaths= of " + unit + " hides " + config,
		"ExecStart=\nExecStart=" + self + "x\n": unit + " begins " + self + "x, which is not there",
	} {
		write(start + more)
		wantCode := exitUnsupported
		if !strings.HasPrefix(more, "S") && !strings.HasPrefix(more, "P") {
			wantCode = exitFailed // it takes no other rights
		}
		said, code := doctor(growth)
		if code != wantCode || !strings.Contains(said, "WRONG") || !strings.Contains(said, want) ||
			!strings.Contains(said, "remedy: ") {
			t.Errorf("%s: %d, %s", more, code, said)
		}
	}
	write(start + "CapabilityBoundingSet=CAP_SYS_PTRACE\n")
	config = ""
	if said, code := doctor(""); code != exitFailed || !strings.Contains(said, "unit             "+unit+" begins memtrace serve with "+
		"--data "+folder+"/of-unit --config /none.yaml") || !strings.Contains(said, "open /none.yaml") {
		t.Errorf("of what the unit begins: %d, %s", code, said)
	}
	config, units = filepath.Join(folder, "memtrace.yaml"), none
	user := withCapabilities()
	said, code := doctor(growth, user...)
	if code != exitUnsupported || !strings.Contains(said, "CAP_BPF") ||
		!strings.Contains(said, "write to "+folder+" as user 65534") {
		t.Errorf("as a user without rights: %d, %s", code, said)
	}
	if err := os.Chmod(config, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, code := doctorOf(user...); code != exitUnsupported || !strings.Contains(said, "permission denied") ||
		!strings.Contains(said, "remedy: ask as root, or as the user of the agent") {
		t.Errorf("as a user who may not read the configuration: %d, %s", code, said)
	}
	if err := os.Chmod(config, 0o644); err != nil {
		t.Fatal(err)
	}
	if said, code := doctor("listen: 127.0.0.1:0\n", user...); code != 0 ||
		!strings.Contains(said, "this user lacks CAP_SYS_PTRACE") {
		t.Errorf("as a user, and nothing is to be traced: %d, %s", code, said)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for recordings: %v", err)
	}
}

// Groups of system calls are systemd's.
func TestDoctorOfServeKnowsSystemdsGroups(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("systemd-analyze", "syscall-filter", "--no-pager").Output()
	if err != nil {
		t.Fatal(err)
	}
	groups := make(map[string][]string)
	group := ""
	for line := range strings.Lines(string(out)) {
		switch word := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "@"):
			group = word
		case word != "" && !strings.HasPrefix(word, "#"):
			groups[group] = append(groups[group], word)
		}
	}
	var has func(group, call string) bool
	has = func(group, call string) bool {
		return slices.ContainsFunc(groups[group], func(word string) bool {
			return word == call || strings.HasPrefix(word, "@") && has(word, call)
		})
	}
	for _, c := range callGroups {
		for group := range groups {
			if got := slices.Contains(c.groups, group); got != has(group, c.call) {
				t.Errorf("%s is in %s: %v", c.call, group, !got)
			}
		}
	}
}
