package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
		{"/", "web", false},
		{"/a", "", false},
	} {
		if got := Within(c.group, c.container); got != c.want {
			t.Errorf("Within(%q, %q) is %v", c.group, c.container, got)
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
	if got := IDs(root, "/web"); len(got) != 0 {
		t.Errorf("/web is %v", got)
	}
}
