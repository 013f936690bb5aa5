package recording

import (
	"github.com/memtrace/memtrace/analyzer/report"
)

// Shown is what a Report has beside what the analyzer knows. Each is in force from its time until the next one.
type Shown struct {
	At       uint64 // ns, CLOCK_MONOTONIC
	Tables   uint64 // report.TracerInfo
	Source   uint64
	Warnings []string // beside the analyzer's
	Notes    []string
	Overhead *report.Overhead
	Pressure *report.Pressure
}

// shownOf takes it from a Report, whose first warnings are the analyzer's.
func shownOf(at uint64, r *report.Report, analyzers int) Shown {
	return Shown{
		At: at, Tables: r.Tracer.Tables, Source: r.Tracer.Source, Warnings: r.Warnings[min(analyzers, len(r.Warnings)):],
		Notes: r.Notes, Overhead: r.Overhead, Pressure: r.Pressure,
	}
}

// addTo gives it to a Report of the analyzer.
func (s *Shown) addTo(r *report.Report) {
	r.Tracer.Tables, r.Tracer.Source, r.Overhead, r.Pressure = s.Tables, s.Source, s.Overhead, s.Pressure
	r.Warnings = append(r.Warnings, s.Warnings...)
	r.Notes = append(r.Notes, s.Notes...)
}
