package recording

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/wrapper"
)

// A Header says of what a recording is. Everything in it is as the machine that made it says.
type Header struct {
	Version string   `json:"version"` // of memtrace
	Host    string   `json:"host"`
	Kernel  string   `json:"kernel"`            // release
	Arch    string   `json:"arch"`              // as Go names it
	Command []string `json:"command,omitempty"` // memtrace's command line; nil where it was left out
	Clock   Clock    `json:"clock"`
	Config  Config   `json:"config"`
}

// A Clock is one instant by two clocks.
type Clock struct {
	Wall      int64  `json:"wall_ns"`      // since 1970, UTC
	Monotonic uint64 `json:"monotonic_ns"` // CLOCK_MONOTONIC, by which all times in a recording are
}

// Config is the part of analyzer.Config that a Report depends on.
type Config struct {
	Start       uint64            `json:"start_ns"`
	MinAge      uint64            `json:"min_age_ns"`
	WarmUp      uint64            `json:"warm_up_ns"`
	FollowForks bool              `json:"follow_forks"`
	Interval    uint32            `json:"interval"`
	Counted     bool              `json:"counted"`
	NamePools   bool              `json:"name_pools"`
	SiteRoom    uint64            `json:"site_room"`
	BlockRoom   uint64            `json:"block_room"`
	Seed        [2]uint64         `json:"seed"`
	PageSize    uint64            `json:"page_bytes"` // of the machine that was traced; 0: not known
	Native      bool              `json:"native,omitempty"`
	Wrappers    []string          `json:"wrappers,omitempty"` // patterns, as --wrapper takes them
	Tracer      report.TracerInfo `json:"tracer"`
}

// ConfigOf is what a Header keeps of an analyzer's. wrappers are the patterns of c.Wrappers.
func ConfigOf(c analyzer.Config, wrappers []string) Config {
	return Config{
		Start: c.Start, MinAge: c.MinAge, WarmUp: c.WarmUp, FollowForks: c.FollowForks, Interval: c.Interval, Counted: c.Counted,
		NamePools: c.NamePools, SiteRoom: c.SiteRoom, BlockRoom: c.BlockRoom, Seed: c.Seed, Native: c.Native, Wrappers: wrappers, Tracer: c.Tracer,
		PageSize: cmp.Or(c.PageSize, uint64(os.Getpagesize())),
	}
}

// Analyzer is the Config of an analyzer that makes the same Reports. It takes no more than these rooms, in bytes; 0:
// as many as the trace's did.
func (c *Config) Analyzer(siteRoom, blockRoom uint64) (analyzer.Config, error) {
	patterns, err := wrapper.Read(c.Wrappers)
	if err == nil && (c.PageSize&(c.PageSize-1) != 0 || c.PageSize > maxPageSize) {
		err = fmt.Errorf("pages of %d bytes", c.PageSize)
	}
	return analyzer.Config{
		Start: c.Start, MinAge: c.MinAge, WarmUp: c.WarmUp, FollowForks: c.FollowForks, Interval: c.Interval, Counted: c.Counted,
		NamePools: c.NamePools, SiteRoom: least(c.SiteRoom, siteRoom), BlockRoom: least(c.BlockRoom, blockRoom), Seed: c.Seed,
		PageSize: c.PageSize, Native: c.Native, Wrappers: patterns, Tracer: c.Tracer,
	}, err
}

// maxPageSize is above the pages of all machines, in bytes.
const maxPageSize = 1 << 20

// least is the smaller one of two limits, of which 0 is none.
func least(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// Time is the time of day at a time of CLOCK_MONOTONIC. Steps of the clock since the trace began are not in it.
func (h *Header) Time(monotonic uint64) time.Time {
	return time.Unix(0, h.Clock.Wall).Add(time.Duration(monotonic - h.Clock.Monotonic))
}

// Monotonic is the time of CLOCK_MONOTONIC at a time of day; 0 for times before that clock began.
func (h *Header) Monotonic(t time.Time) uint64 {
	since := t.Sub(time.Unix(0, h.Clock.Wall))
	if since < 0 && uint64(-since) > h.Clock.Monotonic {
		return 0
	}
	return h.Clock.Monotonic + uint64(since)
}
