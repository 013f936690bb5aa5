//go:build linux && !viewer

package main

import (
	"fmt"
	"hash/maphash"

	"github.com/memtrace/memtrace/analyzer/render"
)

const (
	// maxWarnings bounds how many warnings a process can cause.
	maxWarnings = 100
	// maxUnsaid bounds how many beyond that are told apart: each takes some 20 bytes.
	maxUnsaid = 10_000
)

// unsaidWarnings counts warnings beyond maxWarnings, each once however often it comes. The zero value is ready.
type unsaidWarnings struct {
	seed  maphash.Seed
	known map[uint64]struct{} // hashes of their texts
	more  bool                // there were others
}

// add notes one, and reports whether it is the first of all.
func (u *unsaidWarnings) add(text string) (first bool) {
	if u.known == nil {
		u.seed, u.known = maphash.MakeSeed(), make(map[uint64]struct{})
	}
	hash := maphash.String(u.seed, text)
	if _, known := u.known[hash]; known {
		return false
	}
	if len(u.known) == maxUnsaid {
		u.more = true
		return false
	}
	u.known[hash] = struct{}{}
	return len(u.known) == 1
}

// texts say how many there were.
func (u *unsaidWarnings) texts() []string {
	if len(u.known) == 0 {
		return nil
	}
	count := render.Counted(uint64(len(u.known)), "warning was", "warnings were")
	if u.more {
		count = "more than " + count
	}
	return []string{fmt.Sprintf("%s not shown, beyond the first %d", count, maxWarnings)}
}
