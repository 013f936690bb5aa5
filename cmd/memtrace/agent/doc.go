// Package agent watches a machine's memory for weeks and tells Prometheus: memtrace serve.
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
// What the metrics mean is in docs/serve.md, which a test holds to the metrics that exist.
package agent
