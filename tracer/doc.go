// Package tracer attaches memtrace's probes to running processes and turns
// what they report into batches of events in order of time.
//
// It needs Linux 5.10 with BTF and, for most processes, root (CAP_BPF,
// CAP_PERFMON, CAP_SYS_PTRACE and, below 5.11, a memlock limit lifted). Which
// of the kernel's mechanisms it uses is found by trying them (feature.go,
// mechanism.go).
//
// A Tracer drains the rings in a goroutine of its own. Attach, Read, Loss and
// Close may be called from different goroutines; Read from one at a time.
package tracer
