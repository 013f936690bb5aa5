package render

import (
	"fmt"
	"io"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
)

// writeText writes r for a person, in one write: the processes and where
// their memory is, the sites, their stacks, leaks, and what was lost.
func writeText(w io.Writer, r *report.Report, opt Options) error {
	p := &page{width: opt.Width, color: opt.Color}
	if opt.Made {
		addMade(p, r.Made)
	}
	addProcesses(p, r)
	addSampling(p, r.Sampling)
	addOverhead(p, r.Overhead)
	addPressure(p, r.Pressure)
	p.line(plain, "")
	if r.Tracer.Attach == report.NotTraced {
		addGroups(p, r, opt)
	} else {
		if r.Basis == "" {
			addMappings(p, r, opt)
		}
		if !allUnprobed(r) {
			addTable(p, r, opt)
			addStacks(p, r, opt)
		}
		addRegions(p, r, opt)
		addFirstTouched(p, r, opt)
	}
	p.line(plain, "")
	addLeaks(p, r, len(r.Leaks))
	p.line(plain, "")
	addLosses(p, r)
	addOutcome(p, r.Outcome)
	if _, err := w.Write(p.bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// allUnprobed reports whether there can be no sites.
func allUnprobed(r *report.Report) bool {
	return r.Basis == "" && len(r.Processes) > 0 && len(r.Sites) == 0 && !slices.ContainsFunc(r.Processes, func(p report.Process) bool { return !p.Unprobed })
}

// shownSites are the sites that the table shows.
func shownSites(r *report.Report, opt Options) []report.Site {
	sites := r.Sites
	if opt.Held {
		sites = holding(sites)
	}
	if opt.Top > 0 && opt.Top < len(sites) {
		return sites[:opt.Top]
	}
	return sites
}

// holding are the sites that hold memory; all of them where none does, as at the end of a program that freed it all.
func holding(sites []report.Site) []report.Site {
	var out []report.Site
	for i := range sites {
		if sites[i].LiveBytes > 0 || sites[i].LiveCount > 0 {
			out = append(out, sites[i])
		}
	}
	if len(out) == 0 {
		return sites
	}
	return out
}
