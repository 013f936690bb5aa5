package agent

import "github.com/prometheus/client_golang/prometheus"

// traceMetrics are those of traces that alerts ask for.
var traceMetrics = []metric{
	ofAgent("memtrace_trace_started_total", "Traces of services that alerts have asked for, and that were started.", prometheus.CounterValue,
		func(a *Agent) float64 { c, _, _ := a.traces.figures(); return float64(c.started) }),
	ofAgent("memtrace_trace_failed_total", "Those that failed, did not keep to their time, or saw nothing for most of it.", prometheus.CounterValue,
		func(a *Agent) float64 { c, _, _ := a.traces.figures(); return float64(c.failed) }),
	ofAgent("memtrace_trace_dropped_total",
		"Traces that alerts have asked for, and that were not made: the service was traced not long ago, the alert was over first, or too many waited.",
		prometheus.CounterValue, func(a *Agent) float64 { c, _, _ := a.traces.figures(); return float64(c.dropped) }),
	ofAgent("memtrace_trace_running", "1 while a trace runs, else 0.", prometheus.GaugeValue,
		func(a *Agent) float64 { _, running, _ := a.traces.figures(); return float64(running) }),
	ofAgent("memtrace_trace_waiting", "Traces that wait for their turn.", prometheus.GaugeValue,
		func(a *Agent) float64 { _, _, waiting := a.traces.figures(); return float64(waiting) }),
	ofAgent("memtrace_trace_cpu_seconds_total", "Processor time of traces that have ended.", prometheus.CounterValue,
		func(a *Agent) float64 { c, _, _ := a.traces.figures(); return c.cpu.Seconds() }),
}
