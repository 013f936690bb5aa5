//go:build linux && !viewer

package main

import "path/filepath"

// warnOfUnseen names the functions that are left out, as their returns can't be seen without harm:
// what they hand out is in no figure (docs/probes.md).
func (s *session) warnOfUnseen(t *target) {
	for i := range t.objects {
		o := &t.objects[i]
		if len(o.Unseen) == 0 || s.unseen[o.Path] {
			continue
		}
		s.unseen[o.Path] = true
		for _, f := range o.Unseen {
			s.warn("process %d: %s of %s is not traced, and the blocks that it hands out are not seen: %s", t.pid, f.Name, filepath.Base(o.Path), f.Reason)
		}
	}
}
