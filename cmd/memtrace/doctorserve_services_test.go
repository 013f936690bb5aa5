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

// doctorTest is a folder in which doctor --serve is asked, by the code under test.
type doctorTest struct {
	t            *testing.T
	self, folder string
	config       string // "": --config isn't given
	units        string // in place of this machine's root, for systemd's files
}

func newDoctorTest(t *testing.T) *doctorTest {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self = openFolder(t, self)
	folder := filepath.Dir(self)
	return &doctorTest{t, self, folder, filepath.Join(folder, "memtrace.yaml"), filepath.Join(folder, "none")}
}

// growth asks for what takes rights, and is recorded in data.
func (d *doctorTest) growth() string {
	return fmt.Sprintf("listen: 127.0.0.1:0\nwatch_top: 2\ndata: %s\n", d.data())
}

func (d *doctorTest) data() string { return filepath.Join(d.folder, "data") }

// ask asks of the configuration as it is. before is what begins the command.
func (d *doctorTest) ask(before ...string) (said string, code int) {
	d.t.Helper()
	command := append(before, d.self, "doctor", "--serve")
	if d.config != "" {
		command = append(command, "--config", d.config)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), asMemtrace+"=1", unitsIn+"="+d.units)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// of asks of a configuration.
func (d *doctorTest) of(text string, before ...string) (said string, code int) {
	d.t.Helper()
	if err := os.WriteFile(d.config, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
	return d.ask(before...)
}

// checkNothingMade checks that there is no folder for recordings.
func (d *doctorTest) checkNothingMade() {
	d.t.Helper()
	if _, err := os.Stat(d.data()); !errors.Is(err, os.ErrNotExist) {
		d.t.Errorf("the folder for recordings: %v", err)
	}
}

// doctor --serve ends with 0 where the agent can do what it is to, also while one runs; with 1 where the
// configuration is wrong; with 77 where a user lacks what it takes. Nothing is made.
func TestDoctorOfServe(t *testing.T) {
	t.Parallel()
	d := newDoctorTest(t)
	growth := d.growth()
	if said, code := d.of(growth); code != 0 || !strings.Contains(said, d.data()+" is made at the start") {
		t.Errorf("as root: %d, %s", code, said)
	}
	if said, code := d.of(growth + "interval: 1ms\n"); code != exitFailed ||
		!strings.Contains(said, "line 4: interval: 1ms is not") {
		t.Errorf("with a wrong configuration: %d, %s", code, said)
	}
	user := withCapabilities()
	said, code := d.of(growth, user...)
	if code != exitUnsupported || !strings.Contains(said, "CAP_BPF") ||
		!strings.Contains(said, "write to "+d.folder+" as user 65534") {
		t.Errorf("as a user without rights: %d, %s", code, said)
	}
	if err := os.Chmod(d.config, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, code := d.ask(user...); code != exitUnsupported || !strings.Contains(said, "permission denied") ||
		!strings.Contains(said, "remedy: ask as root, or as the user of the agent") {
		t.Errorf("as a user who may not read the configuration: %d, %s", code, said)
	}
	if err := os.Chmod(d.config, 0o644); err != nil {
		t.Fatal(err)
	}
	if said, code := d.of("listen: 127.0.0.1:0\n", user...); code != 0 ||
		!strings.Contains(said, "this user lacks CAP_SYS_PTRACE") {
		t.Errorf("as a user, and nothing is to be traced: %d, %s", code, said)
	}
	d.checkNothingMade()
}

// What the unit keeps the agent from is told, whoever asks, and what it begins is looked at.
func TestDoctorOfServeReadsTheUnit(t *testing.T) {
	t.Parallel()
	d := newDoctorTest(t)
	d.units = d.folder
	growth, unit := d.growth(), filepath.Join(d.folder, "etc/systemd/system", serviceUnitName)
	start := fmt.Sprintf("[Service]\nExecStart=%s serve --data %s/of-unit --config /none.yaml\n", d.self, d.folder)
	write := func(text string) {
		err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o755), os.WriteFile(unit, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	write(start)
	if said, code := d.of(growth); code != 0 || !strings.Contains(said, unit+" gives CAP_DAC_READ_SEARCH") {
		t.Errorf("as root, and a unit of root's: %d, %s", code, said)
	}
	write(start + "CapabilityBoundingSet=CAP_SYS_PTRACE\n")
	said, code := d.of(growth)
	if code != exitUnsupported || !strings.Contains(said, unit+" doesn't give CAP_DAC_READ_SEARCH") {
		t.Errorf("as root, and a unit without rights: %d, %s", code, said)
	}
	for more, want := range map[string]string{
		"SystemCallFilter=~bpf\n":                 "SystemCallFilter= of " + unit + " refuses bpf",
		"PrivateUsers=yes\n":                      "PrivateUsers= of " + unit + " keeps its capabilities from counting",
		"MemoryMax=9M\n":                          "MemoryMax of " + unit + " is 9 MiB; with 2 tracers",
		"InaccessiblePaths=" + d.folder + "\n":    "InaccessiblePaths= of " + unit + " hides " + d.config,
		"ExecStart=\nExecStart=" + d.self + "x\n": unit + " begins " + d.self + "x, which is not there",
	} {
		write(start + more)
		wantCode := exitUnsupported
		if !strings.HasPrefix(more, "S") && !strings.HasPrefix(more, "P") {
			wantCode = exitFailed // it takes no other rights
		}
		said, code := d.of(growth)
		if code != wantCode || !strings.Contains(said, "WRONG") || !strings.Contains(said, want) ||
			!strings.Contains(said, "remedy: ") {
			t.Errorf("%s: %d, %s", more, code, said)
		}
	}
	write(start + "CapabilityBoundingSet=CAP_SYS_PTRACE\n")
	d.config = ""
	said, code = d.ask()
	begins := "unit             " + unit + " begins memtrace serve with --data " + d.folder + "/of-unit --config /none.yaml"
	if code != exitFailed || !strings.Contains(said, begins) || !strings.Contains(said, "open /none.yaml") {
		t.Errorf("of what the unit begins: %d, %s", code, said)
	}
	d.checkNothingMade()
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
