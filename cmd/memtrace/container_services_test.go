//go:build integration && services

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// podman is the command line of a container without a network whose files are those of a directory: no image is
// fetched, and no limit raised, for which the tests may lack the right. Its groups are made without systemd.
func podman(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(need(t, "podman"), append([]string{"--runtime", need(t, "runc"), "--cgroup-manager", "cgroupfs"}, args...)...)
}

// startContained starts a test program in a container, and returns its name and ID.
func startContained(t *testing.T, root string, more ...string) (program *spawned, name, id string) {
	t.Helper()
	name = fmt.Sprintf("memtrace-test-%d", os.Getpid())
	idFile := filepath.Join(t.TempDir(), "id")
	args := append([]string{"run", "-i", "--name", name, "--cidfile", idFile, "--network", "none", "--ulimit", "nofile=1024:1024",
		"--ulimit", "nproc=1024:1024"}, more...)
	t.Cleanup(func() {
		if out, err := podman(t, "rm", "-f", "-i", name).CombinedOutput(); err != nil {
			t.Errorf("remove the container %s: %v\n%s", name, err, out)
		}
	})
	program = spawn(t, podman(t, append(args, "--rootfs", root, "/program", "attach")...))
	program.lineWith("ready 1")
	text, err := os.ReadFile(idFile)
	if err != nil {
		t.Fatal(err)
	}
	return program, name, strings.TrimSpace(string(text))
}

// TestPodman traces a container's process by the container's name, and by the start of its ID: all that it allocates
// is seen, and nothing of the container's monitor.
func TestPodman(t *testing.T) {
	t.Parallel()
	root := tree(t, "every_function")
	for _, c := range []struct {
		name   string
		flags  []string
		choose func(name, id string) string
	}{
		{"name", nil, func(name, _ string) string { return name }},
		{"short ID", nil, func(_, id string) string { return id[:12] }},
		{"name of one that is removed at its end", []string{"--rm"}, func(name, _ string) string { return name }},
	} {
		t.Run(c.name, func(t *testing.T) {
			program, name, id := startContained(t, root, c.flags...)
			m := &running{spawn(t, memtraceCommand(t, "--container", c.choose(name, id), "--format", "json", "-i", "200ms"))}
			m.report()
			want := program.proceed()
			r := m.interrupt()
			program.end()
			checkSound(t, r)
			if len(r.Processes) != 1 || r.Processes[0].Exe != "/program" || !slices.Equal(r.Processes[0].InnerPIDs, []int{1}) {
				t.Fatalf("processes are %+v, want /program alone, 1 inside", r.Processes)
			}
			checkBytesOf(t, r, want)
		})
	}
}
