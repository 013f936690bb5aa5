package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
)

// maxGroups bounds a walk; a kernel allows 65,535 groups with the memory controller.
const maxGroups = 1 << 16

// Groups lists all groups, the root first and parents before their children.
// Groups that come or go meanwhile may be in it or not.
func (h *Hierarchy) Groups() ([]string, error) {
	var groups []string
	err := filepath.WalkDir(h.root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == h.root:
			return err
		case err != nil: // gone, or not for us: leave it out
			return fs.SkipDir
		case !d.IsDir():
			return nil
		case len(groups) >= maxGroups:
			return fs.SkipAll
		}
		rel, err := filepath.Rel(h.root, name)
		if err != nil {
			return err
		}
		groups = append(groups, filepath.Clean(string(os.PathSeparator)+rel))
		return nil
	})
	return groups, err
}
