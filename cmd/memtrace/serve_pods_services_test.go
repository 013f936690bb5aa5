//go:build integration && services

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/procfs/cgroup"
)

const podOfTests = "web-7d9f8bcdf5-x2b4k"

// podGroup makes the groups that a kubelet and a runtime make for a container of a pod, and returns the last of them.
func podGroup(t *testing.T, uid, container string) string {
	t.Helper()
	h, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	group := h.Root()
	top := fmt.Sprintf("memtrace-pods-%d", os.Getpid())
	for _, name := range []string{top, "kubepods", "burstable", "pod" + uid, container} {
		dir := filepath.Join(group, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		group = dir
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
	}
	return group
}

// With the rights of the manifest for Kubernetes and nothing else, in a container with its own view of control groups
// or the machine's, the agent names a process by its pod, and reads its memory.
func TestServeNamesPods(t *testing.T) {
	t.Parallel()
	const uid = "5759a1ae-36ca-48a8-b20a-b0b5c8a90fb8"
	container := strings.Repeat("3f", 32)
	group := podGroup(t, uid, container) // before the process: it is empty again when it goes
	known := startKnownMemory(t)
	procs := filepath.Join(group, "cgroup.procs")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(known.PID)), 0o644); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	link := filepath.Join(logs, "containers", podOfTests+"_shop_app-"+container+".log")
	for _, dir := range []string{filepath.Join(logs, "pods", "shop_"+podOfTests+"_"+uid, "app"), filepath.Dir(link)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/nowhere", link); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"private", "host"} {
		for _, c := range []struct{ config, want string }{
			{"services: [{name: web, namespace: shop, pod: web-*, container: app}]", "web"},
			{"interval: 10s", "shop/" + podOfTests},
		} {
			t.Run(namespace+" "+c.want, func(t *testing.T) {
				address := servingInContainer(t, logs, c.config, "--cgroupns="+namespace)
				services := listedServices(t, address)
				for _, service := range services {
					if service.Service == c.want && service.Unread == 0 && service.PSSAnon >= uint64(known.Private) {
						return
					}
				}
				t.Errorf("%+v: want %s, which has touched %d bytes", services, c.want, known.Private)
			})
		}
	}
}

// servingInContainer is serving with the capabilities, the mounts and the read-only root of packaging/kubernetes.
func servingInContainer(t *testing.T, logs, config string, more ...string) (address string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := treeOf(t, self) // with its libraries, where it has any
	file := filepath.Join(t.TempDir(), "memtrace.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"run", "--rm", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--network", "host", "--pid", "host",
		"--read-only", "--read-only-tmpfs=false", "--cap-drop", "ALL", "--cap-add", "SYS_PTRACE",
		"--security-opt", "no-new-privileges", "--security-opt", "apparmor=unconfined", "--env", asMemtrace + "=1",
		"-v", file + ":/etc/memtrace/memtrace.yaml:ro", "-v", filepath.Join(logs, "pods") + ":/var/log/pods:ro",
		"-v", filepath.Join(logs, "containers") + ":/var/log/containers:ro",
	}
	args = append(append(args, more...), "--rootfs", root, "/program")
	cmd := podman(t, append(args, "serve", "--listen", "127.0.0.1:0", "--config", "/etc/memtrace/memtrace.yaml")...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it said nothing: %v; %s", cmd.Wait(), said.String())
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, said.String())
		}
	})
	return strings.TrimSuffix(line, "/\n")
}
