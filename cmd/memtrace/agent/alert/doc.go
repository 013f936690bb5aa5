// Package alert says when figures of a machine and its services have crossed limits for some time, and tells receivers.
//
//	Figures of a pass ──▶ Book ── Change ──▶ Message ──▶ Notifier ──▶ queue ──▶ command or webhook, one at a time each
//
// A Book is a state machine for each rule and service. It reads no clock and no file, and is for one goroutine; States
// may be called by any. A Notifier never makes its caller wait: what a receiver's queue has no room for is dropped and
// counted.
//
// Names of services are chosen by whoever runs a process. They go to receivers as data alone: in JSON and in
// variables of the environment, never as a part of a command line.
package alert
