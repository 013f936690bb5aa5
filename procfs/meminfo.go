//go:build linux && !viewer

package procfs

import (
	"errors"
	"fmt"
)

// MemoryOf returns a line of /proc/meminfo, such as "MemAvailable", and all memory that it is a part of; bytes.
func MemoryOf(meminfo *Counters, line string) (bytes, whole uint64, err error) {
	return partOf(meminfo, line, "MemTotal")
}

// MemoryUsed returns the memory that is not available, and all memory; bytes.
func MemoryUsed(meminfo *Counters) (bytes, whole uint64, err error) {
	available, whole, err := MemoryOf(meminfo, "MemAvailable")
	return whole - min(available, whole), whole, err
}

// ErrNoSwap says that the machine has no swap.
var ErrNoSwap = errors.New("this machine has no swap")

// SwapFree returns the swap that is free, and all swap; bytes.
func SwapFree(meminfo *Counters) (bytes, whole uint64, err error) {
	bytes, whole, err = partOf(meminfo, "SwapFree", "SwapTotal")
	if err == nil && whole == 0 {
		err = ErrNoSwap
	}
	return bytes, whole, err
}

// SwapUsed returns the swap that is in use, and all swap; bytes.
func SwapUsed(meminfo *Counters) (bytes, whole uint64, err error) {
	free, whole, err := SwapFree(meminfo)
	return whole - min(free, whole), whole, err
}

func partOf(meminfo *Counters, line, total string) (bytes, whole uint64, err error) {
	bytes, ok := meminfo.Get(line)
	if !ok {
		return 0, 0, fmt.Errorf("this kernel's /proc/meminfo has no %s", line)
	}
	if whole, ok = meminfo.Get(total); !ok {
		return 0, 0, fmt.Errorf("this kernel's /proc/meminfo has no %s", total)
	}
	return bytes, whole, nil
}
