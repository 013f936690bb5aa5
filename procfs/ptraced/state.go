//go:build linux

package ptraced

import (
	"bytes"
	"fmt"
	"os"
)

// State is a thread's state as /proc/TID/stat has it, such as 'R' for one that runs or would if it had a processor,
// and 't' for one that its tracer has stopped; 0: it can't be read. proc(5).
func State(tid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", tid))
	if err != nil {
		return 0
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:] // a name may hold anything, parentheses too
	if len(after) < 2 {
		return 0
	}
	return after[1]
}
