package cgroup

import (
	"path"
	"regexp"
	"strings"
)

// containerID is what docker, podman, containerd and CRI-O call a container.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// minID is how much of an ID must be given.
const minID = 4

// ContainerID returns the ID of the container in the name of a control group,
// "" where there is none. Monitors of containers (conmon) are not in them.
func ContainerID(component string) string {
	if strings.Contains(component, "conmon") {
		return ""
	}
	return containerID.FindString(component)
}

// Within says whether a control group is that of a container, pod or unit, or
// below it. It goes by the names that container runtimes, Kubernetes and
// systemd give to control groups, of either version:
//
//	/docker/ID, /system.slice/docker-ID.scope            docker
//	/machine.slice/libpod-ID.scope/container             podman
//	/kubepods/burstable/podUID/ID                        Kubernetes, pod UID
//	/kubepods.slice/…-podUID.slice/cri-containerd-ID.scope
//	/system.slice/containerd.service/…-podUID.slice:cri-containerd:ID
//	/default/NAME                                        containerd's ctr
//	/lxc.payload.NAME, /lxc/NAME                         LXC
//	/machine.slice/machine-NAME.scope                    systemd-nspawn
//	/system.slice/NAME.service                           a unit of systemd
//
// Of an ID the first digits suffice, at least 4.
func Within(group, container string) bool {
	if container == "" {
		return false
	}
	for component := range strings.SplitSeq(group, "/") {
		if component == container {
			return true
		}
		// slice:prefix:ID is meant for systemd; where containerd's runtime makes the groups itself, it is a name.
		for part := range strings.SplitSeq(component, ":") {
			if part != "" && isContainer(part, container) {
				return true
			}
		}
	}
	return false
}

// unitPrefixes stand before the name in that of a unit that holds a container.
var unitPrefixes = []string{"machine-", "systemd-nspawn@", "lxc.payload.", "lxc-"}

func isContainer(component, container string) bool {
	if component == container {
		return true
	}
	if id := ContainerID(component); id != "" {
		return len(container) >= minID && strings.HasPrefix(id, container)
	}
	if uid := podUID(component); uid != "" && uid == strings.TrimPrefix(container, "pod") {
		return true
	}
	name := unescapeUnit(component)
	for _, suffix := range []string{".service", ".scope", ".slice"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if strings.HasSuffix(component, ".slice") {
		return false // a group of units, not one
	}
	if name == container {
		return true
	}
	for _, prefix := range unitPrefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest == container {
			return true
		}
	}
	return false
}

// podUID returns the UID of the pod that the kubelet made a control group for,
// "" where it did not: podUID, or for systemd …-podUID.slice with _ for dashes.
func podUID(component string) string {
	name, slice := strings.CutSuffix(component, ".slice")
	if !slice {
		if uid, found := strings.CutPrefix(name, "pod"); found {
			return uid
		}
		return ""
	}
	i := strings.LastIndex(name, "-pod")
	if i < 0 {
		return ""
	}
	return strings.ReplaceAll(name[i+len("-pod"):], "_", "-")
}

// Pod returns the UID of the outermost pod that a control group is of, and the
// ID of the outermost container in it; "" where there is none. The kubelet makes
// the groups of its pods below kubepods, and a pod may have a kubelet of its own
// in it. Seen from another control group namespace, what lies above the pod is
// missing: /../../podUID/ID.
func Pod(group string) (uid, container string) {
	kubelets := strings.HasPrefix(group, "/../")
	for component := range strings.SplitSeq(group, "/") {
		if kubelets = kubelets || strings.Contains(component, "kubepods"); !kubelets {
			continue
		}
		if uid == "" {
			slice, _, _ := strings.Cut(component, ":")
			uid = podUID(slice)
		}
		if uid != "" && container == "" {
			container = ContainerID(component)
		}
	}
	return uid, container
}

// unescapeUnit undoes what systemd does to characters in the names of units
// (systemd.unit(5), "String escaping"): a dash is \x2d.
func unescapeUnit(name string) string { return strings.ReplaceAll(name, `\x2d`, "-") }

// Label names what runs in a control group: a container by its runtime and
// short ID, a unit of systemd by its name, or nothing.
func Label(group string) string {
	name := path.Base(group)
	if at := containerID.FindStringIndex(name); at != nil {
		id := name[at[0] : at[0]+12]
		if runtime, ok := strings.CutSuffix(name[:at[0]], "-"); ok {
			return runtime + " " + id
		}
		if path.Base(path.Dir(group)) == "docker" {
			return "docker " + id
		}
		return id
	}
	if unit, ok := strings.CutSuffix(name, ".service"); ok {
		return unit
	}
	return ""
}
