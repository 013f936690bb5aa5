// Package input has all that an Analyzer is told, one type per kind. A trace is one stream of these
// values in one order; the same stream gives the same Report, whether a tracer, a recording or a test
// makes it. The stream carries times, so that the Analyzer needs no clock, and answers that were read
// from processes and files, so that it needs neither.
//
// # Order
//
// The stream is in the order in which its maker gives it; nothing is sorted later. These hold:
//
//   - Events are in the order of their times, within a batch and from batch to batch.
//   - A Stack comes before the first event that names it. Its process may become known later.
//   - A Started comes before the first event of its process that is to count. A child of a process that
//     is followed (Config.FollowForks) needs none: its Fork event begins it.
//   - An answer (Names, PoolName, Mapped, Memory, Verdicts, Repair) comes after the question that it
//     answers; what came between is taken into account as its type says.
//   - Loss, ProcessLoss and LeftOut come before what is to count them: a Report, Verdicts.
//
// # Ownership
//
// What an input points to belongs to the stream once it is given: nobody changes it any more, and whoever
// takes it may keep it. There are two exceptions, as they are many: the array of Events and the frames of a
// Stack are lent for the call of Take, and used again by the maker afterwards. Copy returns an input that
// may be kept.
//
// Times are in ns of CLOCK_MONOTONIC, sizes in bytes, PIDs those of the initial PID namespace.
package input
