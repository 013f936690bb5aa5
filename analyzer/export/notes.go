package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// notes say what a Report lacks, for whoever sees nothing but the export.
func notes(r *report.Report) []string {
	var out []string
	if r.SitesMore > 0 {
		out = append(out, fmt.Sprintf("%d sites are left out (--top 0 saves all)", r.SitesMore))
	}
	if r.RegionsMore > 0 {
		out = append(out, fmt.Sprintf("%d sites of mappings are left out (--top 0 saves all)", r.RegionsMore))
	}
	if r.Sampling != nil && len(r.Sampling.Intervals) > 0 {
		out = append(out, "estimated by a sample")
	}
	if r.Events.Lost > 0 {
		out = append(out, fmt.Sprintf("%s events were lost", thousands(r.Events.Lost)))
	}
	return out
}

// processesOf names the processes of a Report, the first few of many.
func processesOf(r *report.Report) string {
	const most = 3
	var names []string
	for i := range r.Processes {
		s := stack{process: &r.Processes[i], pid: r.Processes[i].PID}
		if name := s.processLabel(true); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// size is a number of bytes as people read it.
func size(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	switch {
	case i == 0:
		return fmt.Sprintf("%d B", n)
	case v < 10:
		return fmt.Sprintf("%.2f %s", v, units[i])
	case v < 100:
		return fmt.Sprintf("%.1f %s", v, units[i])
	}
	return fmt.Sprintf("%.0f %s", v, units[i])
}

// thousands is a number with commas.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// amount is a figure of a kind with its unit.
func amount(v uint64, k Kind) string {
	if k.counts() {
		return counted(v, kinds[k.index()].what)
	}
	return size(v)
}

func counted(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

// describe is a weight in words: "12.0 MiB in 12,288 blocks".
func describe(w weight, k Kind) string {
	text := amount(w.figure(k), k)
	if !k.counts() && w.count > 0 {
		text += " in " + counted(w.count, kinds[k.index()].what)
	}
	return text
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}
