package cgroup

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits on what is read of the runtimes' own files.
const (
	maxContainerFile = 16 << 20
	maxContainers    = 65536
)

// IDs returns the IDs of the containers with a name: those that docker and
// podman keep in files below root, "/" usually. What can't be read has none.
func IDs(root, name string) (ids []string) {
	return slices.Concat(dockerIDs(filepath.Join(root, "var/lib/docker/containers"), name),
		podmanIDs(filepath.Join(root, "var/lib/containers/storage/overlay-containers/containers.json"), name))
}

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
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, maxContainerFile)).Decode(to) == nil
}
