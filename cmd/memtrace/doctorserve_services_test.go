//go:build integration && services

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	doctor := func(text string, before ...string) (said string, code int) {
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		command := append(before, self, "doctor", "--serve", "--config", config)
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), asMemtrace+"=1")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	growth := fmt.Sprintf("listen: 127.0.0.1:0\nwatch_top: 2\ndata: %s\n", data)
	if said, code := doctor(growth); code != 0 || !strings.Contains(said, data+" is made at the start") {
		t.Errorf("as root: %d, %s", code, said)
	}
	if said, code := doctor(growth + "interval: 1ms\n"); code != exitFailed ||
		!strings.Contains(said, "line 4: interval: 1ms is not") {
		t.Errorf("with a wrong configuration: %d, %s", code, said)
	}
	user := withCapabilities()
	said, code := doctor(growth, user...)
	if code != exitUnsupported || !strings.Contains(said, "CAP_BPF") ||
		!strings.Contains(said, "write to "+folder+" as user 65534") {
		t.Errorf("as a user without rights: %d, %s", code, said)
	}
	if said, code := doctor("listen: 127.0.0.1:0\n", user...); code != 0 ||
		!strings.Contains(said, "this user lacks CAP_SYS_PTRACE") {
		t.Errorf("as a user, and nothing is to be traced: %d, %s", code, said)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for recordings: %v", err)
	}
}
