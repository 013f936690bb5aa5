package agent

import (
	"crypto/sha256"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// watchMetrics are those of services whose growth is watched.
var watchMetrics = []metric{
	ofWatches("memtrace_watch_up", "1 while a tracer watches the service's growth, else 0.", prometheus.GaugeValue, func(s *WatchState) float64 { return oneIf(s.Up) }),
	ofWatches("memtrace_watch_processes", "Processes of the service that are traced.", prometheus.GaugeValue, func(s *WatchState) float64 { return float64(s.Processes) }),
	ofWatches("memtrace_watch_unwatched_processes", "Processes of the service that are not traced: too new, too many, or refused.", prometheus.GaugeValue,
		func(s *WatchState) float64 { return float64(s.Unwatched) }),
	ofWatches("memtrace_watch_missed_processes_total",
		"Children that were not watched, as their tracer had had as many processes as it takes.", prometheus.CounterValue,
		func(s *WatchState) float64 { return float64(s.Missed) }),
	{
		"memtrace_watch_resident_bytes", "Resident memory of the traced processes: grown since the tracer began, by stacks that are known; there before; unexplained, which may be below zero.",
		prometheus.GaugeValue, []string{"service", "part"},
		func(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
			a.eachWatch(func(s *WatchState) {
				emit(float64(s.Grown), s.Service, "grown")
				emit(float64(s.Before), s.Service, "before")
				emit(float64(s.Unexplained), s.Service, "unexplained")
			})
		},
	},
	{
		"memtrace_watch_site_grown_bytes", "Memory that was first touched at a call site since the tracer began, and is there: site_metrics of them by service, and the rest as \"other\".",
		prometheus.GaugeValue, []string{"service", "site"}, emitSites,
	},
	{
		"memtrace_watch_start_timestamp_seconds", "When the present tracer began.", prometheus.GaugeValue, []string{"service"},
		func(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
			a.eachWatch(func(s *WatchState) {
				if s.Up {
					emit(seconds(s.Since), s.Service)
				}
			})
		},
	},
	ofWatches("memtrace_watch_seconds_total", "How long the service was watched since the agent began.", prometheus.CounterValue, func(s *WatchState) float64 { return s.Watched.Seconds() }),
	ofWatches("memtrace_watch_page_faults_total", "Page faults whose stack was taken.", prometheus.CounterValue, func(s *WatchState) float64 { return float64(s.Faults) }),
	ofWatches("memtrace_watch_lost_events_total", "Page faults and the like that were not seen, as there was no room.", prometheus.CounterValue, func(s *WatchState) float64 { return float64(s.Lost) }),
	ofWatches("memtrace_watch_cpu_seconds_total", "Processor time of the service's tracers.", prometheus.CounterValue, func(s *WatchState) float64 { return s.CPU.Seconds() }),
	ofWatches("memtrace_watch_tracer_resident_bytes", "Resident memory of the service's tracer.", prometheus.GaugeValue, func(s *WatchState) float64 { return float64(s.Resident) }),
	ofWatches("memtrace_watch_starts_total", "Tracers that were started.", prometheus.CounterValue, func(s *WatchState) float64 { return float64(s.Starts) }),
	ofWatches("memtrace_watch_pauses_total", "Times that the service was let alone for ten minutes, as to watch it cost too much.", prometheus.CounterValue,
		func(s *WatchState) float64 { return float64(s.Pauses) }),
	{
		"memtrace_watch_omitted_services", "Services whose rules ask for growth, and that are not watched, as there are more than max_watched.", prometheus.GaugeValue, nil,
		func(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
			_, omitted := a.watches.list()
			emit(float64(omitted))
		},
	},
	ofWatches("memtrace_history_recording", "1 while what is seen of the service is recorded, else 0.", prometheus.GaugeValue, func(s *WatchState) float64 { return oneIf(s.Up && s.Recording != "") }),
	ofWatches("memtrace_history_bytes", "Size of the service's recordings.", prometheus.GaugeValue, func(s *WatchState) float64 { return float64(s.HistorySize) }),
	ofWatches("memtrace_history_removed_total", "Recordings of the service that were removed, as keep_time and keep_size say.", prometheus.CounterValue,
		func(s *WatchState) float64 { return float64(s.HistoryGone) }),
	ofWatches("memtrace_history_errors_total", "Times that nothing could be recorded, as the disk was full, for instance.", prometheus.CounterValue,
		func(s *WatchState) float64 { return float64(s.HistoryFails) }),
	ofAgent("memtrace_history_leftover_bytes",
		"Size of recordings of services whose growth isn't watched, or no longer; read once an hour.", prometheus.GaugeValue,
		func(a *Agent) float64 { return float64(a.watches.leftovers()) }),
	ofAgent("memtrace_audit_lost_total", "Entries that the audit log on disk lacks; the agent's own log has them.", prometheus.CounterValue, func(a *Agent) float64 { return float64(a.audit.missed()) }),
}

func (a *Agent) eachWatch(do func(*WatchState)) {
	all, _ := a.watches.list()
	for _, w := range all {
		s := w.State()
		do(&s)
	}
}

func ofWatches(name, help string, kind prometheus.ValueType, value func(*WatchState) float64) metric {
	return metric{name, help, kind, []string{"service"}, func(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
		a.eachWatch(func(s *WatchState) { emit(value(s), s.Service) })
	}}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// emitSites tells of as many call sites as the configuration says.
func emitSites(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
	n := a.config.Load().SiteMetrics
	if n == 0 {
		return
	}
	all, _ := a.watches.list()
	for _, w := range all {
		top, rest := w.ledger.steadySites(n)
		for i := range top {
			emit(float64(top[i].Grown), w.service, siteLabel(top[i].name))
		}
		emit(float64(rest.Grown), w.service, otherServices)
	}
}

// siteLabel is a site's name as a label, always the same one. Where that is not the name itself, it ends with a hash
// of the name: another site's may have become the same.
func siteLabel(name string) string {
	label := printable(name)
	if label == name && label != otherServices {
		return label
	}
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s [%x]", label, sum[:6])
}
