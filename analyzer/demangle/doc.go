// Package demangle writes C++ and Rust names as people do, whatever names it is given.
//
// The library that does so has no bound: each substitution in a name copies what it stands for, each expansion of a
// pack goes through all of another, casts are parsed twice at each level. 249 bytes can take for ever, and little can
// be told before. So names that may be costly are left to a process of our own (see package worker), which the kernel ends
// where one takes more than it may.
package demangle
