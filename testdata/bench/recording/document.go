package main

import (
	"fmt"
	"strings"
)

const intro = `## Recordings

Written by ` + "`make bench-recording`" + `: programs under ` + "`memtrace run -o FILE`" + ` and under heaptrack, medians of %d rounds. heaptrack's file has no time but
ticks of 10 ms, no thread and no address of a block. memtrace's has all of these, page faults, samples of memory, and names with files and lines. An event is
an allocation, a free (a realloc is one event here, two calls there) or a page fault; the last Report, which the file also has, counts in "with all".

| program | events | memtrace: bytes an event | with all | heaptrack: bytes a call | tracer's processor time | with the recording |
|---|---:|---:|---:|---:|---:|---:|
`

const speeds = `
How fast the same events are written and read, ns an event on one core. *encode* is what it costs the goroutine that takes events in; *write* also
compresses. *replay* is reading through the analyzer, and *analyzer* that alone.

| program | encode | write | read | analyzer | replay |
|---|---:|---:|---:|---:|---:|
`

func document(all []result, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, intro, rounds)
	for _, r := range all {
		peer := fmt.Sprintf("%.2f", float64(r.heaptrack)/float64(r.calls))
		if r.calls < r.events/10 {
			peer = "– (it saw another program)"
		}
		fmt.Fprintf(&b, "| %s: %s | %d | %.2f | %.2f | %s | %.2f s | %+.1f %% |\n", r.name, r.what, r.events, float64(r.bytes-r.report)/float64(r.events),
			float64(r.bytes)/float64(r.events), peer, r.plain, 100*(r.with/r.plain-1))
	}
	b.WriteString(speeds)
	for _, r := range all {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.0f |\n", r.name, r.speed["encode"], r.speed["write"], r.speed["read"], r.speed["analyzer"], r.speed["replay"])
	}
	return b.String()
}
