package report

import (
	"cmp"
	"slices"
)

// Limit keeps the first top sites, groups of them, regions and mappings of a Report, and the sites of
// leaks wherever they stand, and counts the others as left out; 0 keeps all.
func (r *Report) Limit(top int) {
	if top <= 0 {
		return
	}
	r.LimitSites(top)
	r.Groups, r.GroupsMore = limit(r.Groups, r.GroupsMore, top)
	r.Regions, r.RegionsMore = limit(r.Regions, r.RegionsMore, top)
	if r.Touched != nil {
		f := *r.Touched
		f.Sites, f.SitesMore = limit(f.Sites, f.SitesMore, top)
		r.Touched = &f
	}
	if slices.ContainsFunc(r.Processes, func(p Process) bool { return len(p.Mappings) > top }) {
		r.Processes = slices.Clone(r.Processes)
		for i := range r.Processes {
			p := &r.Processes[i]
			p.Mappings, p.MappingsMore = limit(p.Mappings, p.MappingsMore, top)
		}
	}
}

// LimitSites does so with the sites alone.
func (r *Report) LimitSites(top int) {
	if top > 0 && len(r.Sites) > top {
		leaking := make(map[int]bool, len(r.Leaks))
		for i := range r.Leaks {
			leaking[r.Leaks[i].Site] = true
		}
		kept := slices.Clone(r.Sites[:top])
		if r.SitesMoreSum != nil { // which another copy of the Report may share
			sum := *r.SitesMoreSum
			r.SitesMoreSum = &sum
		}
		for i := top; i < len(r.Sites); i++ {
			if s := &r.Sites[i]; leaking[s.ID] {
				kept = append(kept, *s)
			} else {
				r.LeaveOut(s)
			}
		}
		r.Sites = kept
	}
}

func limit[T any](all []T, more, top int) ([]T, int) {
	if len(all) <= top {
		return all, more
	}
	return slices.Clip(all[:top]), more + len(all) - top
}

// sortKeys are the figures that sites can be sorted by, by the words of --sort.
var sortKeys = map[string]func(*Site) int64{
	"live":     func(s *Site) int64 { return int64(s.LiveBytes) },
	"alloc":    func(s *Site) int64 { return int64(s.AllocBytes) },
	"count":    func(s *Site) int64 { return int64(s.AllocCount) },
	"peak":     func(s *Site) int64 { return int64(s.PeakLiveBytes) },
	"resident": func(s *Site) int64 { return int64(s.ResidentBytes) },
	"growth":   func(s *Site) int64 { return s.GrowthBytes },
	"temp":     func(s *Site) int64 { return int64(s.TemporaryCount) },
	"faults":   func(s *Site) int64 { return int64(s.Faults) },
	"age":      func(s *Site) int64 { return int64(s.OldestNS) },
}

// IsSorted reports whether the sites stand in the order of a word of --sort.
func (r *Report) IsSorted(word string) bool {
	key := sortKey(word)
	return slices.IsSortedFunc(r.Sites, func(a, b Site) int { return cmp.Compare(key(&b), key(&a)) })
}

// Sort orders the sites by a word of --sort, from high to low, as a trace does.
func (r *Report) Sort(word string) {
	key := sortKey(word)
	slices.SortStableFunc(r.Sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(key(&b), key(&a)), cmp.Compare(b.LiveBytes, a.LiveBytes),
			cmp.Compare(b.AllocBytes, a.AllocBytes), cmp.Compare(a.Process, b.Process), cmp.Compare(a.ID, b.ID))
	})
}

// sortKey is the figure of a word of --sort; live bytes for a word that there is not.
func sortKey(word string) func(*Site) int64 {
	if key := sortKeys[word]; key != nil {
		return key
	}
	return sortKeys["live"]
}
