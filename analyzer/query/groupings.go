package query

import (
	"fmt"
	"strconv"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
)

// A grouping says which blocks are in one group: by what is known of their site once names are, or by a number that
// is known of each block.
type grouping struct {
	word  string
	site  func(*siteNames, *site) string
	block func(*subject) uint64
	label func(uint64) string
	needs needs
}

var groupings = []grouping{
	{word: "site", site: func(n *siteNames, s *site) string { return n.keyOf(s) }, needs: needsNames},
	{word: "function", site: func(_ *siteNames, s *site) string { return s.function }, needs: needsNames},
	{word: "caller", site: func(_ *siteNames, s *site) string { return s.group("caller") }, needs: needsNames},
	{word: "file", site: func(_ *siteNames, s *site) string { return s.group("file") }, needs: needsNames},
	{word: "module", site: func(_ *siteNames, s *site) string { return s.group("module") }, needs: needsNames},
	{word: "comm", site: func(_ *siteNames, s *site) string { return s.comm }, needs: needsNames},
	{word: "process", site: func(_ *siteNames, s *site) string { return fmt.Sprintf("%s (%d)", s.comm, s.name.Info.PID) }, needs: needsNames},
	{word: "pid", block: func(s *subject) uint64 { return uint64(s.life.PID) }, label: number},
	{word: "thread", block: func(s *subject) uint64 { return uint64(s.birth.thread) }, label: threadLabel, needs: needsBirth},
	{word: "free_thread", block: func(s *subject) uint64 { return uint64(s.freeThread()) }, label: threadLabel},
	{word: "size", block: func(s *subject) uint64 { return octave(s.life.Size) }, label: sizeLabel},
	{word: "lifetime", block: func(s *subject) uint64 { return decade(s.lifetime(), !s.live) }, label: lifetimeLabel},
	{word: "age", block: func(s *subject) uint64 { return decade(s.lifetime(), s.live) }, label: ageLabel},
	{word: "leak", block: leakKey, label: func(k uint64) string { return leakLabels[k] }},
	{word: "kind", block: func(s *subject) uint64 { return uint64(s.birth.cause) }, label: causeLabel, needs: needsBirth},
	{word: "ended_by", block: endKey, label: causeLabel},
}

func groupingOf(word string) *grouping {
	if word == "" {
		word = "site"
	}
	for i := range groupings {
		if groupings[i].word == word {
			return &groupings[i]
		}
	}
	return nil
}

// group is the site's group in a Report.
func (s *site) group(by string) string {
	r := report.Site{Function: s.name.Function, FunctionFrame: s.name.FunctionFrame, Stack: s.name.Frames}
	return r.GroupKey(by)
}

func number(k uint64) string { return strconv.FormatUint(k, 10) }

func threadLabel(k uint64) string {
	if k == 0 {
		return "[a copy at a fork, or not known]"
	}
	return number(k)
}

// octave is the power of two that a size is up to.
func octave(size uint64) uint64 {
	k := uint64(1)
	for k < size {
		k <<= 1
	}
	return k
}

func sizeLabel(k uint64) string {
	return "up to " + humanBytes(k)
}

// decade is the power of ten that a time in ns is below, from 1 µs on; 0: it has none.
func decade(ns uint64, known bool) uint64 {
	if !known {
		return 0
	}
	k := uint64(1000)
	for k <= ns && k < 1e17 {
		k *= 10
	}
	return k
}

func lifetimeLabel(k uint64) string {
	if k == 0 {
		return "[lives]"
	}
	return "below " + duration(k)
}

func ageLabel(k uint64) string {
	if k == 0 {
		return "[ended]"
	}
	return "below " + duration(k)
}

// duration is a power of ten as people say it.
func duration(ns uint64) string {
	if ns > uint64(time.Second) {
		return fmt.Sprintf("%ds", ns/uint64(time.Second))
	}
	return time.Duration(ns).String()
}

var leakLabels = []string{"[not found leaked]", "definite", "indirect", "possible"}

func leakKey(s *subject) uint64 {
	for i, l := range leakLabels {
		if s.life.Leaked == l {
			return uint64(i)
		}
	}
	return 0
}

func endKey(s *subject) uint64 {
	if s.live {
		return 0
	}
	return uint64(s.life.Cause)
}

func causeLabel(k uint64) string {
	if k == 0 {
		return "[lives]"
	}
	return analyzer.Cause(k).String()
}
