package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memtrace/memtrace/procfs"
)

// A metric is one name of /metrics, and how its values come from a Snapshot.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	collect    func(a *Agent, s *Snapshot, emit func(value float64, labels ...string))
}

// metrics are all that the agent tells, apart from the standard process_ metrics of itself. docs/serve.md has them in
// this order.
var metrics = slices.Concat(serviceMetrics, watchMetrics, machineMetrics, alertMetrics, traceMetrics, ownMetrics)

var serviceMetrics = []metric{
	ofServices("memtrace_service_processes", "Processes of the service.", func(s *Service) float64 { return float64(s.Processes) }),
	ofServices("memtrace_service_threads", "Threads of the service.", func(s *Service) float64 { return float64(s.Threads) }),
	ofServices("memtrace_service_rss_bytes", "Resident memory; a page that two of its processes share counts twice.", func(s *Service) float64 { return float64(s.RSS) }),
	{
		"memtrace_service_pss_bytes", "Proportional share of resident memory by kind: a page of n processes counts 1/n. Services add up.", prometheus.GaugeValue, []string{"service", "kind"},
		func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
			for i := range s.Services {
				v := &s.Services[i]
				emit(float64(v.Anon), v.Name, "anon")
				emit(float64(v.File), v.Name, "file")
				emit(float64(v.Shmem), v.Name, "shmem")
			}
		},
	},
	ofServices("memtrace_service_uss_bytes", "Resident memory that no other process maps.", func(s *Service) float64 { return float64(s.USS) }),
	ofServices("memtrace_service_swap_bytes", "Memory of the service in swap.", func(s *Service) float64 { return float64(s.Swap) }),
	ofServices("memtrace_service_unread_processes", "Processes whose PSS, USS and swap are not in the sums: not permitted, or not read yet within the stall budget.",
		func(s *Service) float64 { return float64(s.Unread) }),
	{
		"memtrace_service_read_timestamp_seconds", "When the oldest figure in PSS, USS and swap was read.", prometheus.GaugeValue, []string{"service"},
		func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
			for i := range s.Services {
				if v := &s.Services[i]; !v.ReadAt.IsZero() {
					emit(seconds(v.ReadAt), v.Name)
				}
			}
		},
	},
	{
		"memtrace_service_page_faults_total", "Page faults since the agent saw the service first; those of a process between its last pass and its end are missing.",
		prometheus.CounterValue, []string{"service", "kind"},
		func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
			for i := range s.Services {
				v := &s.Services[i]
				emit(float64(v.MinorFaults), v.Name, "minor")
				emit(float64(v.MajorFaults), v.Name, "major")
			}
		},
	},
	counterOfServices("memtrace_service_cpu_seconds_total", "Processor time since the agent saw the service first.", func(s *Service) float64 { return s.CPU.Seconds() }),
	counterOfServices("memtrace_service_processes_started_total", "Processes that came since the agent saw the service first, as far as a pass met them.",
		func(s *Service) float64 { return float64(s.Started) }),
	ofSnapshot("memtrace_services_omitted", "Services that are summed in the service \"other\", as there are more than max_services.",
		func(s *Snapshot) float64 { return float64(s.Omitted) }),
}

var machineMetrics = []metric{
	{
		"memtrace_machine_memory_bytes", "The machine's memory by what it is used for. The parts add up to all of it; \"unexplained\" is what nobody counts, and may be below zero.",
		prometheus.GaugeValue, []string{"part"},
		func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
			if s.Machine.Books == nil {
				return
			}
			for _, p := range s.Machine.Books.Parts {
				emit(float64(p.Bytes), strings.ToLower(strings.ReplaceAll(p.Name, " ", "_")))
			}
		},
	},
	{
		"memtrace_machine_swap_bytes", "Swap space.", prometheus.GaugeValue, []string{"state"},
		func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
			if total, free := s.Machine.SwapTotal, s.Machine.SwapFree; total != nil && free != nil {
				emit(float64(*total-min(*free, *total)), "used")
				emit(float64(*free), "free")
			}
		},
	},
	{
		"memtrace_machine_memory_stall_seconds_total", "How long tasks have waited for memory since boot: some of them, or all at once.", prometheus.CounterValue, []string{"tasks"},
		func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
			if p := s.Machine.Pressure; p != nil {
				emitStalls(p, emit)
			}
		},
	},
	ofMachine("memtrace_machine_oom_kills_total", "Processes that the kernel's out-of-memory killer has taken since boot.", func(m *Machine) *uint64 { return m.OOMKills }),
	ofMachine("memtrace_machine_major_faults_total", "Page faults since boot that waited for a disk.", func(m *Machine) *uint64 { return m.MajorFaults }),
}

var ownMetrics = []metric{
	ofSnapshot("memtrace_pass_timestamp_seconds", "When the pass began that the figures are from.", func(s *Snapshot) float64 { return seconds(s.At) }),
	ofSnapshot("memtrace_pass_duration_seconds", "How long that pass took.", func(s *Snapshot) float64 { return s.Took.Seconds() }),
	ofSnapshot("memtrace_pass_problems", "Parts of the machine's figures that could not be read in that pass.", func(s *Snapshot) float64 { return float64(s.Problems) }),
	ofAgent("memtrace_passes_total", "Passes over all processes.", prometheus.CounterValue, func(a *Agent) float64 { return float64(a.own.passes.Load()) }),
	ofAgent("memtrace_pass_errors_total", "Passes that failed; the figures before them stay.", prometheus.CounterValue, func(a *Agent) float64 { return float64(a.own.errors.Load()) }),
	ofAgent("memtrace_stall_seconds_total", "How long memory locks of processes were held to read them.", prometheus.CounterValue,
		func(a *Agent) float64 { return time.Duration(a.own.walked.Load()).Seconds() }),
	{
		"memtrace_walks_total", "Processes by what became of reading their PSS in a pass: done, unchanged since, deferred for the budget, or too long for it.", prometheus.CounterValue, []string{"outcome"},
		func(a *Agent, _ *Snapshot, emit func(float64, ...string)) {
			emit(float64(a.own.done.Load()), "done")
			emit(float64(a.own.unchanged.Load()), "unchanged")
			emit(float64(a.own.deferred.Load()), "deferred")
			emit(float64(a.own.tooLong.Load()), "too_long")
		},
	},
	ofAgent("memtrace_config_last_reload_successful", "1 if the configuration was good when it was read last. A bad one leaves the old in force.", prometheus.GaugeValue,
		func(a *Agent) float64 { return oneIf(a.own.reloadOK.Load()) }),
	ofAgent("memtrace_config_last_reload_success_timestamp_seconds", "When a good configuration was read last.", prometheus.GaugeValue,
		func(a *Agent) float64 { return float64(a.own.reloadAt.Load()) }),
	{
		"memtrace_build_info", "1, with the version.", prometheus.GaugeValue, []string{"version"},
		func(a *Agent, _ *Snapshot, emit func(float64, ...string)) { emit(1, a.opt.Version) },
	},
}

func ofServices(name, help string, value func(*Service) float64) metric {
	return eachService(name, help, prometheus.GaugeValue, value)
}

func counterOfServices(name, help string, value func(*Service) float64) metric {
	return eachService(name, help, prometheus.CounterValue, value)
}

func eachService(name, help string, kind prometheus.ValueType, value func(*Service) float64) metric {
	return metric{name, help, kind, []string{"service"}, func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
		for i := range s.Services {
			emit(value(&s.Services[i]), s.Services[i].Name)
		}
	}}
}

func ofSnapshot(name, help string, value func(*Snapshot) float64) metric {
	return metric{name, help, prometheus.GaugeValue, nil, func(_ *Agent, s *Snapshot, emit func(float64, ...string)) { emit(value(s)) }}
}

func ofMachine(name, help string, value func(*Machine) *uint64) metric {
	return metric{name, help, prometheus.CounterValue, nil, func(_ *Agent, s *Snapshot, emit func(float64, ...string)) {
		if v := value(&s.Machine); v != nil {
			emit(float64(*v))
		}
	}}
}

func ofAgent(name, help string, kind prometheus.ValueType, value func(*Agent) float64) metric {
	return metric{name, help, kind, nil, func(a *Agent, _ *Snapshot, emit func(float64, ...string)) { emit(value(a)) }}
}

func emitStalls(p *procfs.Pressure, emit func(float64, ...string)) {
	emit(p.Some.Total.Seconds(), "some")
	emit(p.Full.Total.Seconds(), "all")
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// exporter is a prometheus.Collector of the latest Snapshot.
type exporter struct {
	agent *Agent
	descs []*prometheus.Desc
}

func newExporter(a *Agent) *exporter {
	e := &exporter{agent: a}
	for _, m := range metrics {
		e.descs = append(e.descs, prometheus.NewDesc(m.name, m.help, m.labels, nil))
	}
	return e
}

// Describe is a prometheus.Collector's.
func (e *exporter) Describe(to chan<- *prometheus.Desc) {
	for _, d := range e.descs {
		to <- d
	}
}

// Collect is a prometheus.Collector's.
func (e *exporter) Collect(to chan<- prometheus.Metric) {
	s := e.agent.latest.Load()
	for i, m := range metrics {
		m.collect(e.agent, s, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(e.descs[i], m.kind, value, labels...)
		})
	}
}
