// Package watch tells when figures of the machine and of processes cross
// thresholds, such as "swap>80%" or "pss(redis)>2GiB".
//
// A condition that was crossed has to be back by a margin (Options.Hysteresis)
// before it can be crossed again. A figure that cannot be read is never taken
// for one that is within its limit: it is Unknown, which is told like a
// crossing. docs/watch.md lists the figures.
//
// A Watch is for one goroutine at a time.
package watch
