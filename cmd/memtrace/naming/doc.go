// Package naming names the code addresses of traced processes: which function, file and line a return address lay in
// when its stack was taken.
//
// What a process has mapped is read while it runs, mostly later than what it did, and earlier than its events are
// read. So a Namer has one record for each process, and two clocks meet in it: looks at the process as it is now, and
// events that say what it was.
//
//	                      Forked                       Look, of what runs now
//	(nothing known) ─────────────────> its parent's ──────────────────────────> its own
//	      │                             up to the fork                             │
//	      │ Look                                                                   │ Executed: dropped, unless it was
//	      └───────────────────────────────────────────────────────────────────>    │ read after that exec
//	                                                                               v
//	stands still at an exec: Replaced ──> a Look after that is kept as upcoming ─> its own, from Executed on
//
//	ended: Last (the last program, where nobody had looked) ─> Keep (or closed, beyond what is kept) ─> Forget
//
// Whatever a process has of its own names what came after it was read; what came before, in a child, is named by what
// its parent had mapped when it forked. The two may be learnt in either order.
package naming
