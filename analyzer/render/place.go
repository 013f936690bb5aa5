package render

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// place is the frame of a leak's stack that a reader should be led to: the
// innermost one in a source file below root, else the innermost outside the
// allocator that has a source file, else any outside the allocator. It is nil
// where there is no stack.
func place(s *report.Site, root string) *report.Frame {
	var withFile, any *report.Frame
	if s == nil {
		return nil
	}
	for i := range s.Stack {
		f := s.Stack[i]
		if report.IsAllocator(f.Function) {
			continue
		}
		if _, below := relative(f.File, root); below && f.File != "" {
			return f
		}
		if withFile == nil && f.File != "" {
			withFile = f
		}
		if any == nil {
			any = f
		}
	}
	if withFile != nil {
		return withFile
	}
	return any
}

// relative returns a file's path below root, and whether it is there.
func relative(file, root string) (string, bool) {
	if file == "" {
		return "", false
	}
	if !path.IsAbs(file) {
		file = path.Clean(file)
		return file, file != ".." && !strings.HasPrefix(file, "../")
	}
	rel, err := filepath.Rel(root, path.Clean(file))
	if root == "" || err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path.Clean(file), false
	}
	return rel, true
}

// fileURI is a file as a URI, relative to root where it is below.
func fileURI(file, root string) (uri string, below bool) {
	file, below = relative(file, root)
	if below || !path.IsAbs(file) {
		return (&url.URL{Path: file}).String(), below
	}
	return (&url.URL{Scheme: "file", Path: file}).String(), false
}

// leakTitle is a leak in a few words: "definite leak of 1.20 KiB in 3 blocks".
func leakTitle(l *report.Leak) string {
	what := " leak of "
	if !report.IsVerdict(l.Kind) {
		what = " leak candidate of "
	}
	return l.Kind + what + size(l.Bytes) + " in " + counted(l.Count, "block", "blocks")
}

// leakFacts are what else is known of a leak: where its bytes are, how old its
// blocks are, and whether it grows.
func leakFacts(l *report.Leak) []string {
	var out []string
	if p := l.Pages; p != nil {
		out = append(out, size(p.Resident)+" resident")
		if p.Untouched > 0 {
			out = append(out, size(p.Untouched)+" untouched")
		}
		if p.Swapped > 0 {
			out = append(out, size(p.Swapped)+" swapped")
		}
	}
	if l.OldestNS > 0 {
		ages := "oldest block " + duration(l.OldestNS)
		if l.NewestNS > 0 && l.Count > 1 {
			ages += ", newest " + duration(l.NewestNS)
		}
		out = append(out, ages)
	}
	if l.Growing {
		out = append(out, "growing by "+size(l.GrowthPerSecond)+"/s")
	}
	if l.Known {
		out = append(out, "known to the baseline")
	}
	return out
}

// failing are the indexes of the leaks that made a rule fail.
func failing(r *report.Report) map[int]bool {
	out := make(map[int]bool)
	if r.Outcome == nil {
		return out
	}
	for _, rule := range r.Outcome.Rules {
		for _, i := range rule.Leaks {
			out[i] = true
		}
	}
	return out
}

// sitesByID indexes the sites of a Report.
func sitesByID(r *report.Report) map[int]*report.Site {
	out := make(map[int]*report.Site, len(r.Sites))
	for i := range r.Sites {
		out[r.Sites[i].ID] = &r.Sites[i]
	}
	return out
}

// headline says how it ended: "failed", "could not be checked", "passed".
func headline(o *report.Outcome) string {
	switch {
	case o == nil:
		return "no conditions were set"
	case o.Failed:
		return "failed"
	case len(o.Problems) > 0:
		return "could not be checked"
	case len(o.Rules) == 0:
		return "no conditions were set"
	}
	return "passed"
}
