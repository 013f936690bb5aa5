module github.com/memtrace/memtrace/testdata/bench/system

go 1.26.0

require (
	github.com/memtrace/memtrace v0.0.0
	github.com/prometheus/procfs v0.22.0
	golang.org/x/sys v0.49.0
)

replace github.com/memtrace/memtrace => ../../..
