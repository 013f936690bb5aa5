//go:build linux && !viewer

package main

import "path/filepath"

// warnOfUnseen names the functions that are left out, as their returns can't be seen without harm:
// what they hand out is in no figure (docs/probes.md).
func (s *session) warnOfUnseen(t *target) {
	for i := range t.objects {
		o := &t.objects[i]
		id := fileID{o.Major, o.Minor, o.Inode} // a container's file may have the path of another one
		if len(o.Unseen) == 0 || s.unseen[id] {
			continue
		}
		s.unseen[id] = true
		for _, f := range o.Unseen {
			s.warn("process %d: %s of %s is not traced, and the blocks that it hands out are not seen: %s", t.pid, f.Name, filepath.Base(o.Path), f.Reason)
		}
	}
}
