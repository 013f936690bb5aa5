package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs/collect"
)

const (
	podUID    = "5759a1ae-36ca-48a8-b20a-b0b5c8a90fb8"
	staticUID = "187bff14cccb94f179e943eacce55bb3"
)

// sidecarID and sandboxID are containers of the pod of containerID: another one, and the one that holds its namespaces.
var sidecarID, sandboxID = strings.Repeat("5c", 32), strings.Repeat("9a", 32)

// slice is the group of a pod as systemd's driver has it.
func slice(uid string) string {
	const burstable = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
	return burstable + strings.ReplaceAll(uid, "-", "_") + ".slice"
}

// fakePods are the folders that a kubelet keeps, as Kubernetes 1.34 writes them.
func fakePods(t *testing.T) *pods {
	t.Helper()
	root := t.TempDir()
	p := &pods{links: filepath.Join(root, "containers")}
	p.begin(filepath.Join(root, "pods"))
	for _, dir := range []string{
		"pods/shop_web-7d9f8bcdf5-x2b4k_" + podUID + "/app", "pods/shop_web-7d9f8bcdf5-x2b4k_" + podUID + "/istio-proxy",
		"pods/kube-system_kube-apiserver-node1_" + staticUID + "/kube-apiserver",
		"pods/no-pod", "pods/a_b", "pods/a_b_c_d", "pods/shop_\x1b[31m_x", "containers",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{
		"web-7d9f8bcdf5-x2b4k_shop_app-" + containerID, "web-7d9f8bcdf5-x2b4k_shop_istio-proxy-" + sidecarID,
		"web_other_app-" + strings.Repeat("0", 64), "cut_off_by-the-length-of-a-name-0123", "none",
	} {
		if err := os.Symlink("/nowhere", filepath.Join(p.links, link+".log")); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Groups of both drivers, of control groups 1 and 2, of containerd, CRI-O and docker.
func TestPodsOfGroups(t *testing.T) {
	web := pod{namespace: "shop", name: "web-7d9f8bcdf5-x2b4k"}
	app, proxy := web, web
	app.container, proxy.container = "app", "istio-proxy"
	apiserver := pod{namespace: "kube-system", name: "kube-apiserver-node1"}
	p := fakePods(t)
	unit := "kubepods-burstable-pod" + strings.ReplaceAll(podUID, "-", "_") + ".slice"
	for group, want := range map[string]pod{
		slice(podUID) + "/cri-containerd-" + containerID + ".scope":                            app,
		slice(podUID) + "/cri-containerd-" + containerID + ".scope/system.slice/nginx.service": app,
		slice(podUID) + "/cri-containerd-" + sidecarID + ".scope":                              proxy,
		slice(podUID) + "/cri-containerd-" + sandboxID + ".scope":                              web,
		slice(podUID) + "/crio-" + containerID + ".scope":                                      app,
		slice(podUID) + "/crio-" + containerID + ".scope/container":                            app,
		slice(podUID) + "/docker-" + containerID + ".scope":                                    app,
		slice(podUID): web,
		slice(staticUID) + "/cri-containerd-" + sandboxID + ".scope":                                apiserver,
		"/kubepods/burstable/pod" + podUID + "/" + containerID:                                      app,
		"/kubepods/pod" + podUID + "/crio-" + containerID:                                           app,
		"/kubepods/besteffort/pod" + staticUID + "/" + sandboxID:                                    apiserver,
		"/system.slice/containerd.service/" + unit + ":cri-containerd:" + containerID:               app,
		"/../../" + unit + "/cri-containerd-" + containerID + ".scope":                              app,
		slice("00000000-36ca-48a8-b20a-b0b5c8a90fb8") + "/cri-containerd-" + containerID + ".scope": {},
		"/system.slice/nginx.service":                                                               {},
		"/":                                                                                         {},
		"/kubepods/burstable/podx":                                                                  {},
	} {
		if got := p.of(group); got != want {
			t.Errorf("%s: %+v, want %+v", group, got, want)
		}
	}
}

// The folders are read again for what is new, and once a pass at most.
func TestPodsAreReadOnceAPass(t *testing.T) {
	p := fakePods(t)
	const late = "00000000-36ca-48a8-b20a-b0b5c8a90fb8"
	group := slice(late) + "/crio-" + sandboxID + ".scope"
	if got := p.of(group); got != (pod{}) {
		t.Fatalf("a pod that is not there is %+v", got)
	}
	if err := os.Mkdir(filepath.Join(p.dir, "shop_late_"+late), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := p.of(group); got != (pod{}) {
		t.Errorf("read twice in a pass: %+v", got)
	}
	p.begin(p.dir)
	if got := p.of(group); got.name != "late" {
		t.Errorf("not read in the next pass: %+v", got)
	}
	p.begin("")
	if got := p.of(group); got != (pod{}) {
		t.Errorf("named without the folder: %+v", got)
	}
}

// What has no name, as the sandbox of each pod, is looked for in its first passes, and seldom from then on. What is new
// has the folder listed at once.
func TestPodsAreListedForWhatIsNew(t *testing.T) {
	p := fakePods(t)
	sandbox, app := slice(podUID)+"/crio-"+sandboxID+".scope", slice(podUID)+"/crio-"+containerID+".scope"
	pass := func(passes int) (container string) {
		for range passes {
			p.begin(p.dir)
			container = p.of(sandbox).container
			if got := p.of(app).container; got != "app" {
				t.Fatalf("the container beside it is %q", got)
			}
		}
		return container
	}
	pass(podLooks)
	link := filepath.Join(p.links, "web-7d9f8bcdf5-x2b4k_shop_late-"+sandboxID+".log")
	if err := os.Symlink("/nowhere", link); err != nil {
		t.Fatal(err)
	}
	if got := pass(podLooksAgain - podLooks - 2); got != "" {
		t.Errorf("listed in each pass: %q", got)
	}
	if got := pass(2); got != "late" {
		t.Errorf("listed never again: %q", got)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	p.begin(p.dir)
	p.of(slice(podUID) + "/crio-" + strings.Repeat("7b", 32) + ".scope")
	if got := p.of(sandbox).container; got != "" {
		t.Errorf("not listed for a new one: %q", got)
	}
	p.begin(p.dir)
	p.begin(p.dir)
	if n := len(p.containers.missing) + len(p.containers.were); n != 0 {
		t.Errorf("%d are kept that nobody asks for", n)
	}
}

// A folder that others than root write to names nothing.
func TestPodsOfAnotherUsersFolder(t *testing.T) {
	for _, spoil := range []func(string) error{
		func(dir string) error { return os.Chmod(dir, 0o777) },
		func(dir string) error { return os.Chown(dir, 1000, 1000) },
		os.RemoveAll,
	} {
		p := fakePods(t)
		if err := spoil(p.dir); err != nil {
			t.Fatal(err)
		}
		if got := p.of(slice(podUID)); got != (pod{}) {
			t.Errorf("%+v", got)
		}
	}
}

// No user's group counts as a pod's, whatever it is called.
func TestPodsOfAUsersGroups(t *testing.T) {
	owners, pods := fakeGroups(t), fakePods(t)
	for _, top := range []string{"/system.slice/app.service", "/user.slice/user-1000.slice/user@1000.service"} {
		group := in(owners, top+slice(podUID)+"/crio-"+containerID+".scope", 1000)
		if got := pods.of(group.byRoot); got != (pod{}) {
			t.Errorf("%s: %+v", group.path, got)
		}
	}
}

// Rules by namespace, pod and container, and the name of a pod without a rule.
func TestRulesOfPods(t *testing.T) {
	pods := fakePods(t)
	for _, test := range []struct {
		rule, container string
		want            bool
	}{
		{"namespace: shop", containerID, true},
		{"namespace: 's*'", sandboxID, true},
		{"namespace: prod", containerID, false},
		{"pod: web-*", containerID, true},
		{"namespace: shop, pod: web-*", sidecarID, true},
		{"namespace: prod, pod: web-*", sidecarID, false},
		{"pod: web", containerID, false},
		{"pod: web-*, container: app", containerID, true},
		{"pod: web-*, container: app", sidecarID, false},
		{"pod: web-*, container: app", sandboxID, false},
		{"container: 3f2a0c11", containerID, true},
		{"container: " + podUID, containerID, true},
		{"pod: '*'", "", false},
		{"namespace: '*'", "", false},
	} {
		c := parsed(t, "services: [{name: s, "+test.rule+"}]")
		group := processGroup{known: true, path: "/system.slice/nginx.service"}
		if test.container != "" {
			group.path = slice(podUID) + "/cri-containerd-" + test.container + ".scope"
		}
		group.byRoot, group.pod = group.path, pods.of(group.path)
		if got := c.Services[0].matches(&collect.Process{Comm: "x"}, group); got != test.want {
			t.Errorf("%s: %v of %s", test.rule, got, group.path)
		}
		name, user, _ := parsed(t, "").serviceOf(&collect.Process{Comm: "x"}, group)
		if want := "shop/web-7d9f8bcdf5-x2b4k"; test.container != "" && (name != want || user != 0) {
			t.Errorf("%s is %q of user %d, want %q", group.path, name, user, want)
		}
	}
}

// An agent in a container sees its own group as the root, and finds where that is on the machine.
func TestGroupsSeenFromAContainer(t *testing.T) {
	machine := t.TempDir()
	own := "/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope"
	if err := os.MkdirAll(filepath.Join(machine, own), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := groupIn(machine, filepath.Join(machine, own)); got != own {
		t.Errorf("its own group is %q", got)
	}
	if got := groupIn(machine, machine); got != "/" {
		t.Errorf("the machine's root is %q", got)
	}
	if got := groupIn(machine, t.TempDir()); got != "" {
		t.Errorf("a group elsewhere is %q", got)
	}
	g := &groupOwners{own: own}
	for seen, want := range map[string]string{
		"/": own, "/sub": own + "/sub", "/../../kubepods-pod2.slice/x.scope": "/kubepods.slice/kubepods-pod2.slice/x.scope",
		"/../../../system.slice/nginx.service": "/system.slice/nginx.service", "": "",
	} {
		if got := g.onHost(seen); got != want {
			t.Errorf("%s is %s, want %s", seen, got, want)
		}
	}
	if got := new(groupOwners).onHost("/../x"); got != "/../x" {
		t.Errorf("without a namespace: %s", got)
	}
}
