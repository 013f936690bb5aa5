package cgroup

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits on what is read of the runtimes' own files.
const (
	maxContainerFile = 16 << 20
	maxContainers    = 65536
	maxStores        = 4096
)

// IDs returns the IDs of the containers with a name: those that docker and
// podman keep in files below root, "/" usually. What can't be read has none.
func IDs(root, name string) (ids []string) {
	ids = dockerIDs(filepath.Join(root, "var/lib/docker/containers"), name)
	for _, store := range podmanStores {
		for _, file := range podmanFiles {
			found, _ := filepath.Glob(filepath.Join(root, store, "*-containers", file)) // the pattern is well-formed
			for _, path := range found[:min(len(found), maxStores)] {
				ids = append(ids, podmanIDs(path, name)...)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// podmanStores are where podman keeps containers by default: those of root, also where they are to be gone after the
// next start, and those of users; containers-storage.conf(5), graphroot, runroot and rootless_storage_path.
var podmanStores = []string{"var/lib/containers/storage", "run/containers/storage", "home/*/.local/share/containers/storage"}

// podmanFiles are its lists, in a directory named after the driver: of containers that stay, and of those that are
// removed at their end (run --rm); github.com/containers/storage, containers.go.
var podmanFiles = []string{"containers.json", "volatile-containers.json"}

// dockerIDs reads config.v2.json of each container: {"ID": "…", "Name": "/web"}.
func dockerIDs(dir, name string) (ids []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries[:min(len(entries), maxContainers)] {
		var c struct{ ID, Name string }
		if readJSON(filepath.Join(dir, e.Name(), "config.v2.json"), &c) && strings.TrimPrefix(c.Name, "/") == name && ContainerID(c.ID) == c.ID {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// podmanIDs reads a list of {"id": "…", "names": ["web"]}.
func podmanIDs(file, name string) (ids []string) {
	var all []struct {
		ID    string
		Names []string
	}
	if !readJSON(file, &all) {
		return nil
	}
	for _, c := range all {
		if slices.Contains(c.Names, name) && ContainerID(c.ID) == c.ID {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func readJSON(path string, to any) bool {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) // users may have put a pipe there, or a link to a device
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // a reference only: nothing can be lost
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type == unix.FUSE_SUPER_MAGIC || fs.Type == unix.PROC_SUPER_MAGIC ||
		fs.Type == unix.SYSFS_MAGIC || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|unix.O_NONBLOCK, 0) // a lease is not waited for
	if err != nil {
		return false
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, maxContainerFile)).Decode(to) == nil
}
