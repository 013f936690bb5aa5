package agent

import (
	"os"
	"strings"

	"github.com/memtrace/memtrace/procfs/cgroup"
)

// A pod is what the kubelet calls one. The zero pod is none.
type pod struct {
	namespace, name string
	container       string // that a process is in; "" where it can't be told
}

// pods are the names of this machine's pods, as the kubelet writes them to the folders that it keeps for logs. They
// need no right in the cluster and no socket, and are the same for all runtimes (pkg/kubelet/kuberuntime:
// BuildPodLogsDirectory, legacyLogSymlink):
//
//	/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log
//	/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
type pods struct {
	byUID, containers podNames // the latter by the container's ID
	dir, links        string   // where those folders are
	passes            int
}

// podLinks is the kubelet's ContainerLogsDir, which can't be set.
const podLinks = "/var/log/containers"

// maxPods bounds what is read of a folder. A machine has some hundred pods, and a file for each container's last runs.
const maxPods = 20000

// podNames are what a folder has named. It is listed for what is new, at most once a pass.
type podNames struct {
	found         map[string]pod
	missing, were map[string]int // what has no name, of this pass and the last; for how many passes
	read          bool           // in this pass
}

const (
	// podLooks is for how many passes what is new is looked for: the kubelet names a container a moment after its
	// start.
	podLooks = 6
	// podLooksAgain is every how many passes all is looked for that has no name. The sandbox of each pod never has one.
	podLooksAgain = 60
)

// begin is for a new pass.
func (p *pods) begin(dir string) {
	if dir != p.dir {
		p.byUID = podNames{}
	}
	p.dir = dir
	p.passes++
	p.byUID.begin()
	p.containers.begin()
}

func (n *podNames) begin() {
	n.were, n.missing, n.read = n.missing, make(map[string]int), false
}

// of is what a folder calls something. all has it listed whatever has been looked for.
func (n *podNames) of(id string, all bool, list func() map[string]pod) (pod, bool) {
	if is, ok := n.found[id]; ok {
		return is, true
	}
	if n.missing == nil { // before the first pass
		n.begin()
	}
	looks := n.were[id]
	n.missing[id] = looks + 1
	if n.read || looks >= podLooks && !all {
		return pod{}, false
	}
	n.read, n.found = true, list()
	is, ok := n.found[id]
	return is, ok
}

// of is the pod of a group, by the part of its path that root has named.
func (p *pods) of(byRoot string) pod {
	uid, id := cgroup.Pod(byRoot)
	if uid == "" || p.dir == "" {
		return pod{}
	}
	is, ok := p.byUID.of(uid, p.passes%podLooksAgain == 0, func() map[string]pod { return podsIn(p.dir) })
	if !ok {
		return pod{}
	}
	is.container = p.container(is, id)
	return is
}

// container is what the container of a pod is called that has an ID. That of the pod's sandbox, which holds its
// namespaces, has no name.
func (p *pods) container(of pod, id string) string {
	if id == "" {
		return ""
	}
	c, _ := p.containers.of(id, p.passes%podLooksAgain == 0, func() map[string]pod { return containersIn(p.links) })
	if c.namespace != of.namespace || c.name != of.name {
		return ""
	}
	return c.container
}

// podsIn reads the names of folders: NAMESPACE_POD_UID. None of the three has a _ in it.
func podsIn(dir string) map[string]pod {
	found := make(map[string]pod)
	for _, name := range namesIn(dir) {
		parts := strings.Split(name, "_")
		if len(parts) != 3 || !isKubeName(parts[0]) || !isKubeName(parts[1]) || parts[2] == "" {
			continue
		}
		found[parts[2]] = pod{namespace: parts[0], name: parts[1]}
	}
	return found
}

// containersIn reads the names of links: POD_NAMESPACE_CONTAINER-ID.log. One that would be longer than a name may be is
// cut, and has no ID.
func containersIn(dir string) map[string]pod {
	found := make(map[string]pod)
	for _, name := range namesIn(dir) {
		name, log := strings.CutSuffix(name, ".log")
		at := strings.LastIndexByte(name, '-')
		if !log || at < 0 || cgroup.ContainerID(name[at+1:]) != name[at+1:] {
			continue
		}
		parts := strings.Split(name[:at], "_")
		if len(parts) != 3 || !isKubeName(parts[0]) || !isKubeName(parts[1]) || !isKubeName(parts[2]) {
			continue
		}
		found[name[at+1:]] = pod{namespace: parts[1], name: parts[0], container: parts[2]}
	}
	return found
}

// isKubeName goes by the names that Kubernetes takes: DNS labels and subdomains.
func isKubeName(name string) bool {
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
}

// namesIn lists a folder that only root writes to: others could name pods in another one.
func namesIn(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.IsDir() || !onlyRoots(info) {
		return nil
	}
	names, _ := f.Readdirnames(maxPods) // what is read until an error is true
	return names
}
