package main

import (
	"slices"
	"strconv"
	"strings"
)

// parsePIDs reads the values of --pid, each of one ID or several.
func parsePIDs(words []string) ([]int, error) {
	var pids []int
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") {
			pid, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil || pid <= 0 {
				return nil, usageError("--pid %q is not a process ID", part)
			}
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}
