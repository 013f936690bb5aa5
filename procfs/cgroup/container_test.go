package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var testID = strings.Repeat("0123456789abcdef", 4)

func TestWithin(t *testing.T) {
	other := strings.Repeat("f", 64)
	for _, c := range []struct {
		group, container string
		want             bool
	}{
		{"/docker/" + testID, testID, true},
		{"/docker/" + testID, "0123456789ab", true},
		{"/docker/" + testID, "012", false},
		{"/docker/" + other, "0123456789ab", false},
		{"/docker/" + testID + "/sub/group", "0123", true},
		{"/system.slice/docker-" + testID + ".scope", "0123456789ab", true},
		{"/system.slice/docker.service", "0123456789ab", false},
		{"/system.slice/docker.service", "docker", true},
		{"/machine.slice/libpod-" + testID + ".scope/container", "0123456789ab", true},
		{"/machine.slice/libpod-conmon-" + testID + ".scope", "0123456789ab", false},
		{"/kubepods/burstable/pod2f8c1a34-1111-2222-3333-444455556666/" + testID, "0123456789ab", true},
		{"/kubepods/burstable/pod2f8c1a34-1111-2222-3333-444455556666/" + testID, "2f8c1a34-1111-2222-3333-444455556666", true},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2f8c1a34_1111_2222_3333_444455556666.slice/cri-containerd-" + testID + ".scope", "2f8c1a34-1111-2222-3333-444455556666", true},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2f8c1a34_1111_2222_3333_444455556666.slice/cri-containerd-" + testID + ".scope", "pod2f8c1a34-1111-2222-3333-444455556666", true},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2f8c1a34_1111_2222_3333_444455556666.slice/crio-" + testID + ".scope", "01234567", true},
		{"/kubepods/burstable/pod2f8c1a34-1111-2222-3333-444455556666/" + testID, "burstable", true},
		{"/default/web", "web", true},
		{"/default/web2", "web", false},
		{"/lxc.payload.web/init.scope", "web", true},
		{"/lxc/web", "web", true},
		{`/machine.slice/machine-deb\x2dtest.scope/payload`, "deb-test", true},
		{"/machine.slice/systemd-nspawn@web.service/payload", "web", true},
		{"/system.slice/redis-server.service", "redis-server", true},
		{"/system.slice/redis-server.service", "redis-server.service", true},
		{"/system.slice/redis-server.service", "redis", false},
		{"/user.slice/user-1000.slice", "user-1000", false},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/web.service", "web", true},
		{"/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1", true},
		{"/system.slice/podman.service", "man", false},
		{"/system.slice/run-u42.scope", "run-u42.scope", true},
		{"/lxc.monitor.web", "web", false},
		{"/lxc.payload/web", "web", true},
		{"/a:b", "a:b", true},
		{"/", "web", false},
		{"/a", "", false},
	} {
		if got := Within(c.group, c.container); got != c.want {
			t.Errorf("Within(%q, %q) is %v", c.group, c.container, got)
		}
	}
}

// The names that runtimes give to control groups, of version 1 and 2 and by both of their cgroup drivers, where they
// run on the host and inside of another container. Sources:
//
//	docker      moby, daemon/oci_linux.go (withCgroups): PARENT/ID, or PARENT.slice:docker:ID for systemd
//	runc        libcontainer/cgroups/systemd/common.go (getUnitName): slice:prefix:name is slice/prefix-name.scope
//	podman      libpod/container_internal_linux.go (getOCICgroupPath); that of v1 by cgroupfs was read from
//	            /proc/self/cgroup in a container of podman 4.3
//	kubelet     pkg/kubelet/cm/cgroup_manager_linux.go (ToSystemd, ToCgroupfs); kind sets cgroupRoot: /kubelet
//	containerd  internal/cri/server/podsandbox/helpers (getCgroupsPath): parent/ID, or slice:cri-containerd:ID for
//	            systemd, which a runtime without systemd takes for a name
//	CRI-O       internal/config/cgmgr: parent/crio-ID, or slice/crio-ID.scope
//	LXC         lxc.container.conf(5), lxc.cgroup.dir: lxc.payload.NAME from 4.0 on
func TestLayoutsOfRuntimes(t *testing.T) {
	const uid, unitUID = "2f8c1a34-1111-2222-3333-444455556666", "2f8c1a34_1111_2222_3333_444455556666"
	node := strings.Repeat("9a", 32)
	for name, group := range map[string]string{
		"docker, cgroupfs":                     "/docker/" + testID,
		"docker, systemd":                      "/system.slice/docker-" + testID + ".scope",
		"docker, systemd, another parent":      "/web.slice/docker-" + testID + ".scope",
		"docker, systemd inside":               "/system.slice/docker-" + testID + ".scope/system.slice/nginx.service",
		"docker, rootless":                     "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + testID + ".scope",
		"docker in docker":                     "/docker/" + node + "/docker/" + testID,
		"podman, cgroupfs, v1":                 "/libpod_parent/libpod-" + testID,
		"podman, systemd":                      "/machine.slice/libpod-" + testID + ".scope",
		"podman, systemd, v2":                  "/machine.slice/libpod-" + testID + ".scope/container",
		"podman, rootless":                     "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + testID + ".scope/container",
		"podman, unit":                         "/system.slice/web.service/libpod-payload-" + testID,
		"podman, pod, systemd":                 "/machine.slice/machine-libpod_pod_" + node + ".slice/libpod-" + testID + ".scope/container",
		"podman, pod, cgroupfs":                "/libpod_parent/" + node + "/libpod-" + testID,
		"nerdctl":                              "/system.slice/nerdctl-" + testID + ".scope",
		"kubelet, containerd, cgroupfs":        "/kubepods/burstable/pod" + uid + "/" + testID,
		"kubelet, containerd, guaranteed":      "/kubepods/pod" + uid + "/" + testID,
		"kubelet, containerd, systemd":         "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + unitUID + ".slice/cri-containerd-" + testID + ".scope",
		"kubelet, containerd, systemd, G":      "/kubepods.slice/kubepods-pod" + unitUID + ".slice/cri-containerd-" + testID + ".scope",
		"kubelet by systemd, runc by cgroupfs": "/system.slice/containerd.service/kubepods-burstable-pod" + unitUID + ".slice:cri-containerd:" + testID,
		"the same, another controller":         "/kubepods-burstable-pod" + unitUID + ".slice:cri-containerd:" + testID,
		"kubelet, docker, systemd":             "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + unitUID + ".slice/docker-" + testID + ".scope",
		"kubelet, CRI-O, systemd":              "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + unitUID + ".slice/crio-" + testID + ".scope",
		"kubelet, CRI-O, crun":                 "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + unitUID + ".slice/crio-" + testID + ".scope/container",
		"kubelet, CRI-O, cgroupfs":             "/kubepods/burstable/pod" + uid + "/crio-" + testID,
		"kind on docker, v2":                   "/docker/" + node + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + unitUID + ".slice/cri-containerd-" + testID + ".scope",
		"kind on docker by systemd":            "/system.slice/docker-" + node + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + unitUID + ".slice/cri-containerd-" + testID + ".scope",
		"kind on docker, v1":                   "/docker/" + node + "/kubelet/kubepods/besteffort/pod" + uid + "/" + testID,
		"seen from a sibling's namespace":      "/../" + node + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + unitUID + ".slice/cri-containerd-" + testID + ".scope",
		"k3s in docker":                        "/docker/" + node + "/k3s/kubepods/burstable/pod" + uid + "/" + testID,
		"k3s as a unit":                        "/system.slice/k3s.service/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + unitUID + ".slice/cri-containerd-" + testID + ".scope",
	} {
		for _, id := range []string{testID, testID[:12]} {
			if !Within(group, id) {
				t.Errorf("%s: %s is not in %s", name, group, id)
			}
		}
		for _, is := range []struct {
			container string
			here      bool
		}{
			{uid, strings.Contains(group, uid) || strings.Contains(group, unitUID)},
			{"pod" + uid, strings.Contains(group, uid) || strings.Contains(group, unitUID)},
			{node[:12], strings.Contains(group, node)},
			{strings.Repeat("0", 12), false}, {uid[:8], false}, {"2f8c1a34-1111-2222-3333-444455556667", false},
		} {
			if Within(group, is.container) != is.here {
				t.Errorf("%s: Within(%q, %q) is %v", name, group, is.container, !is.here)
			}
		}
		wantUID, wantID := "", ""
		if strings.Contains(group, uid) || strings.Contains(group, unitUID) {
			wantUID, wantID = uid, testID
		}
		if gotUID, gotID := Pod(group); gotUID != wantUID || gotID != wantID {
			t.Errorf("%s: Pod(%q) is %q, %q, not %q, %q", name, group, gotUID, gotID, wantUID, wantID)
		}
	}
	for _, monitor := range []string{
		"/machine.slice/libpod-conmon-" + testID + ".scope", "/libpod_parent/conmon", "/system.slice/crio-conmon-" + testID + ".scope",
		"/kubepods.slice/kubepods-pod" + node + ".slice/crio-conmon-" + testID + ".scope", "/system.slice/web.service/libpod-conmon-" + testID,
	} {
		if Within(monitor, testID) {
			t.Errorf("the monitor in %s is taken for the container", monitor)
		}
	}
}

// The pod is the one that the machine's own kubelet made. Static pods have a hash for a UID.
func TestPod(t *testing.T) {
	const uid, other = "2f8c1a34-1111-2222-3333-444455556666", "99999999-1111-2222-3333-444455556666"
	const hash, slices = "187bff14cccb94f179e943eacce55bb3", "/kubepods.slice/kubepods-burstable.slice"
	unitUID, inner := strings.ReplaceAll(uid, "-", "_"), strings.Repeat("9a", 32)
	for group, want := range map[string][2]string{
		slices + "/kubepods-burstable-pod" + hash + ".slice/cri-containerd-" + testID + ".scope": {hash, testID},
		slices + "/kubepods-burstable-pod" + unitUID + ".slice/crio-conmon-" + testID + ".scope": {uid, ""},
		slices: {},
		"/kubepods/burstable/pod" + hash + "/" + testID:                                      {hash, testID},
		"/kubepods/besteffort/pod" + uid:                                                     {uid, ""},
		"/kubepods/pod" + uid + "/" + testID + "/kubelet/kubepods/pod" + other + "/" + inner: {uid, testID},
		"/../../pod" + uid + "/" + testID:                                                    {uid, testID},
		"/../../kubepods-burstable-pod" + unitUID + ".slice/crio-" + testID + ".scope":       {uid, testID},
		"/../cri-containerd-" + testID + ".scope":                                            {},
		"/pod" + uid + "/" + testID:                                                          {}, // not of a kubelet
		"/machine.slice/machine-libpod_pod_" + inner + ".slice/libpod-" + testID + ".scope":  {},
		"/system.slice/podman.service":                                                       {}, "/": {}, "": {},
	} {
		if uid, id := Pod(group); uid != want[0] || id != want[1] {
			t.Errorf("%s: %q, %q, not %q", group, uid, id, want)
		}
	}
}

// Names are found in the files that docker and podman keep.
func TestIDsOfNames(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := strings.Repeat("ab", 32)
	write("var/lib/docker/containers/"+testID+"/config.v2.json", `{"StreamConfig":{},"State":{"Running":true},"ID":"`+testID+`","Name":"/web"}`)
	write("var/lib/docker/containers/broken/config.v2.json", `{"ID":`)
	write("var/lib/docker/containers/bad/config.v2.json", `{"ID":"/","Name":"/web"}`)
	write("var/lib/containers/storage/overlay-containers/containers.json", `[{"id":"`+second+`","names":["db","web"],"layer":"x"}]`)
	if got := IDs(root, "web"); !slices.Equal(got, []string{testID, second}) {
		t.Errorf("web is %v", got)
	}
	// With another driver, removed at their end, of a user, and of a store in memory.
	for i, file := range []string{
		"var/lib/containers/storage/vfs-containers/containers.json", "var/lib/containers/storage/overlay-containers/volatile-containers.json",
		"home/ann/.local/share/containers/storage/overlay-containers/containers.json", "run/containers/storage/overlay-containers/volatile-containers.json",
	} {
		id, name := strings.Repeat(string("4567"[i]), 64), fmt.Sprintf("job%d", i)
		write(file, `[{"id":"`+id+`","names":["`+name+`"],"flags":{"Volatile":true}}]`)
		if got := IDs(root, name); !slices.Equal(got, []string{id}) {
			t.Errorf("%s of %s is %v", name, file, got)
		}
	}
	// A pipe that nobody writes to.
	pipe := filepath.Join(root, "home/bob/.local/share/containers/storage/overlay-containers")
	if err := errors.Join(os.MkdirAll(pipe, 0o700), unix.Mkfifo(filepath.Join(pipe, "containers.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := IDs(root, "/web"); len(got) != 0 {
		t.Errorf("/web is %v", got)
	}
}
