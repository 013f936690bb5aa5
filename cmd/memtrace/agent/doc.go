// Package agent watches a machine's memory for weeks and tells Prometheus and pprof: memtrace serve.
//
//	          every interval
//	/proc ──▶ collect.Collector ──▶ book ──▶ Snapshot ──▶ /metrics, /services
//	          within its stall budget   │    (immutable)
//	cgroupfs ───────────────────────────┘
//
// One goroutine collects. It groups processes into services by the rules of a Config, and publishes a Snapshot, which
// never changes afterwards. Whoever asks over HTTP gets the latest: a slow or hanging scraper holds up nobody, and a
// hundred scrapers cost no more walks of page tables than one.
//
// A service is a name, not a process: one that restarts is the same service, and its counters go on.
//
// Of services whose rules ask for growth, a watch has a tracer run, one after the other:
//
//	book ──▶ watches ──▶ watch ──▶ segment ── Orders ──▶ memtrace record --probes none ──▶ recording
//	          a service each │        ▲                            │
//	                         │        └───────────── Feeds ◀───────┘
//	                         └──▶ ledger ──▶ /debug/pprof, /services/NAME/growth, /metrics
//
// A tracer is a process of its own, for one recording: what a service's files and memory do to it happens there alone, and
// what it costs is known by service. The ledger counts through all of them. history is the folder of recordings, audit
// the log of what was traced and read.
//
// Services that alerts with trace fire for are traced in full, one after the other, by traces and traceService:
//
//	Book ── Change ──▶ traces (a queue) ──▶ memtrace record, for its time ──▶ recording, Findings ──▶ audit, /alerts
//
// What the metrics mean is in docs/serve.md, which a test holds to the metrics that exist.
package agent
