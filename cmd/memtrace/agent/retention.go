package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// prune removes a service's oldest recordings until the rest is young and small enough. The one that is being written
// stays.
func (h *history) prune(service, written string, c *Config, now time.Time) (size int64, removed int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pruneIn(h.folder(service), written, c, now)
}

// pruneOthers is prune for services that aren't watched, or no longer. A folder that has nothing left is removed.
func (h *history) pruneOthers(watched map[string]bool, c *Config, now time.Time) (size int64, removed int, err error) {
	folders, err := h.folders()
	if err != nil {
		return 0, 0, err
	}
	mine := make(map[string]bool, len(watched))
	for service := range watched {
		mine[h.folder(service)] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	removed, err = h.pruneTracesOfOthers(folders, c)
	for _, folder := range folders {
		if mine[folder] {
			continue
		}
		kept, gone, wrong := h.pruneIn(folder, "", c, now)
		size, removed, err = size+kept, removed+gone, errors.Join(err, wrong)
		if traces := filepath.Join(folder, tracesFolder); filepath.Dir(h.tracing) != traces {
			_ = os.Remove(traces) // which the kernel refuses while anything is in it
			_ = os.Remove(folder)
		}
	}
	return size, removed, err
}

// folders are those of all services that there are recordings of.
func (h *history) folders() (all []string, err error) {
	top := filepath.Join(h.dir, "services")
	entries, err := os.ReadDir(top)
	if err != nil {
		return nil, fmt.Errorf("list the folders of recordings: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, filepath.Join(top, e.Name()))
		}
	}
	return all, nil
}

// pruneTracesOfOthers removes traces of services that no rule names, until all of them together take no more than one
// service may: users can make as many services as they like. Theirs go first, then the oldest. The lock is held.
func (h *history) pruneTracesOfOthers(folders []string, c *Config) (removed int, err error) {
	named := make(map[string]bool, len(c.Services))
	for i := range c.Services {
		named[h.folder(c.Services[i].Name)] = true
	}
	var users, others []Segment
	for _, folder := range folders {
		if named[folder] {
			continue
		}
		traces, wrong := segmentsIn(filepath.Join(folder, tracesFolder), kindTrace)
		err = errors.Join(err, wrong)
		// The one that is being written counts at its end: while none may remove it, others would go in its place.
		traces = slices.DeleteFunc(traces, func(s Segment) bool { return s.File == h.tracing })
		if usersFolder.MatchString(folder) {
			users = append(users, traces...)
		} else {
			others = append(others, traces...)
		}
	}
	byBegin := func(x, y Segment) int { return x.Begin.Compare(y.Begin) }
	slices.SortStableFunc(users, byBegin)
	slices.SortStableFunc(others, byBegin)
	_, removed, wrong := h.removeInOrder(slices.Concat(users, others), "", func(s Segment, size int64) bool {
		return size <= int64(c.KeepSize)
	})
	return removed, errors.Join(err, wrong)
}

// pruneIn is prune of a folder. The lock is held.
func (h *history) pruneIn(folder, written string, c *Config, now time.Time) (size int64, removed int, err error) {
	all, err := recordingsIn(folder)
	size, removed, wrong := h.removeInOrder(all, written, func(s Segment, size int64) bool {
		return now.Sub(s.End) <= c.KeepTime && size <= int64(c.KeepSize)
	})
	return size, removed, errors.Join(err, wrong)
}

// removeInOrder removes recordings until each that is left may be kept. Those that are being written
// stay. The lock is held.
func (h *history) removeInOrder(
	all []Segment, written string, keeps func(s Segment, size int64) bool,
) (size int64, removed int, err error) {
	for _, s := range all {
		size += s.Size
	}
	for _, s := range all {
		if s.File == written || s.File == h.tracing || keeps(s, size) {
			continue
		}
		if wrong := os.Remove(s.File); wrong != nil && !errors.Is(wrong, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove an old recording: %w", wrong))
			continue
		}
		size -= s.Size
		removed++
	}
	return size, removed, err
}
