// Package machine reads what the kernel tells about the memory of the machine
// as a whole: /proc/meminfo, vmstat, zoneinfo, slabinfo and pressure, and the
// NUMA nodes of /sys.
//
// A Reader is rooted at two directories, so fixture files serve as well. It
// reads into the caller's values and its own buffers, again and again without
// allocating. Figures are asked for by the kernel's names and may be absent:
// see procfs.Counters. Nothing here needs privileges but Slabinfo.
package machine
