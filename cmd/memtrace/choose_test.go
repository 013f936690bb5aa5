//go:build linux && !viewer

package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/procfs"
)

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		group, path string
		want        bool
	}{
		{"/system.slice/nginx.service", "/system.slice/nginx.service", true},
		{"/system.slice/nginx.service", "system.slice", true},
		{"/system.slice/nginx.service", "/sys/fs/cgroup/system.slice/", true},
		{"/system.slice/nginx.service", "/", true},
		{"/system.slice2", "/system.slice", false},
		{"/", "/system.slice", false},
		{"", "/a", false},
	} {
		if got := below(c.group, c.path); got != c.want {
			t.Errorf("below(%q, %q) is %v", c.group, c.path, got)
		}
	}
}

// The processes of a name are those that the kernel shows under it, neither
// zombies nor memtrace itself.
func TestChooseByName(t *testing.T) {
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sleep", "100")
	cmd.Args[0] = "another" // the name is the file's
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	pids, err := selection{comms: []string{"sleep"}}.choose(fs)
	if err != nil || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("chosen are %v, %v; want %d among them", pids, err, cmd.Process.Pid)
	}
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := (selection{comms: []string{string(self[:len(self)-1])}}).choose(fs); slices.Contains(pids, os.Getpid()) {
		t.Errorf("memtrace itself is among %v, %v", pids, err)
	}
	if _, err := (selection{comms: []string{"no such name"}}).choose(fs); err == nil || err.Error() != "no process is named no such name" {
		t.Errorf("for a name that nobody has the error is %v", err)
	}
}

// settingsOf are those of a command line.
func settingsOf(t *testing.T, args ...string) (got settings) {
	t.Helper()
	app := &cli.App{Name: "memtrace", Flags: traceFlags(), Action: func(c *cli.Context) (err error) {
		got, err = readSettings(c)
		return err
	}}
	if err := app.Run(append([]string{"memtrace"}, args...)); err != nil {
		t.Fatal(err)
	}
	return got
}

// Whatever asks for a check for leaks has processes stand still at their ends.
func TestLeakChecksHold(t *testing.T) {
	for args, want := range map[string]bool{
		"": true, "--hold=false": false, "--hold=false --leaks": true, "--hold=false --stop": true,
		"--hold=false --fail-on definite": true, "--hold=false --fail-on growing": false,
	} {
		if got := settingsOf(t, strings.Fields(args)...); got.hold != want {
			t.Errorf("%q: processes are held: %v, want %v", args, got.hold, want)
		}
	}
}

// A name or a path is taken as it is, commas and all: several of them are several flags.
func TestChooseByNameWithComma(t *testing.T) {
	c := settingsOf(t, "--comm", "a,b", "--comm", "c", "--cgroup", "/x,y", "--container", "one,two").chosen
	if !slices.Equal(c.comms, []string{"a,b", "c"}) || !slices.Equal(c.cgroups, []string{"/x,y"}) || !slices.Equal(c.containers, []string{"one,two"}) {
		t.Errorf("chosen are %q, %q and %q", c.comms, c.cgroups, c.containers)
	}
}

// Text for a file is the result alone, unless an interval is asked for.
func TestTextForAFileIsTheResult(t *testing.T) {
	for _, c := range []struct {
		args     string
		terminal bool
		want     bool
	}{
		{"", false, false}, {"-d 5s", false, false}, {"-i 1s", false, true}, {"--interval 2s", false, true},
		{"--format json", false, true}, {"", true, true},
		{"-q", true, false}, {"-q -i 1s", false, false}, {"-q --format json", false, false}, {"--format csv", true, false}, {"--format csv -i 1s", false, false},
	} {
		if got := settingsOf(t, strings.Fields(c.args)...).eachInterval(c.terminal); got != c.want {
			t.Errorf("%q, a terminal: %v: a Report each interval: %v, want %v", c.args, c.terminal, got, c.want)
		}
	}
}
