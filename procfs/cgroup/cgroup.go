package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/whole"
)

// Hierarchy is the tree of control groups that has the memory controller. It
// is for one goroutine at a time.
type Hierarchy struct {
	files *whole.Reader
	root  string
	v1    bool
}

// Open finds the memory controller below root, "/sys/fs/cgroup" as a rule:
// version 1 at root/memory (as systemd mounts it, alone or beside version 2),
// else version 2 at root or root/unified. ErrNotSupported: it is at neither.
func Open(root string) (*Hierarchy, error) {
	for _, try := range []struct {
		dir, has string
		v1       bool
	}{
		{"memory", "memory.usage_in_bytes", true},
		{"", "cgroup.controllers", false},
		{"unified", "cgroup.controllers", false},
	} {
		dir := filepath.Join(root, try.dir)
		if _, err := os.Stat(filepath.Join(dir, try.has)); err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("open control groups: %w", err)
			}
			continue
		}
		files, err := whole.Open(dir)
		if err != nil {
			return nil, fmt.Errorf("open control groups: %w", err)
		}
		return &Hierarchy{files: files, root: dir, v1: try.v1}, nil
	}
	return nil, fmt.Errorf("open control groups: %w: no memory controller is mounted below %s", procfs.ErrNotSupported, root)
}

// Close lets go of the hierarchy.
func (h *Hierarchy) Close() error { return h.files.Close() }

// Version is 1 or 2.
func (h *Hierarchy) Version() int {
	if h.v1 {
		return 1
	}
	return 2
}

// Root is the directory where the hierarchy is mounted.
func (h *Hierarchy) Root() string { return h.root }
