//go:build linux && !viewer

package procfs

import (
	"fmt"
	"strings"
	"time"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Pressure is a file of pressure stall information, /proc/pressure/memory or a
// cgroup's memory.pressure (Linux 4.20; Documentation/accounting/psi.rst).
// Kernels may have it switched off: then reading it is ErrNotSupported.
type Pressure struct {
	Some Stall // at least one task waited
	Full Stall // all tasks that were not idle waited
}

// Stall is the share of time lost to waiting.
type Stall struct {
	Avg10, Avg60, Avg300 float64       // per cent, over the last 10, 60 and 300 s
	Total                time.Duration // since boot, or since the group's creation
}

// PressureAverage returns what reads an average of a Pressure by its name, "some.avg10" or the like; nil where there is
// none of that name. Per cent.
func PressureAverage(name string) func(*Pressure) float64 {
	who, window, _ := strings.Cut(name, ".")
	of := map[string]func(*Pressure) *Stall{
		"some": func(p *Pressure) *Stall { return &p.Some }, "full": func(p *Pressure) *Stall { return &p.Full },
	}[who]
	average := map[string]func(*Stall) float64{
		"avg10":  func(s *Stall) float64 { return s.Avg10 },
		"avg60":  func(s *Stall) float64 { return s.Avg60 },
		"avg300": func(s *Stall) float64 { return s.Avg300 },
	}[window]
	if of == nil || average == nil {
		return nil
	}
	return func(p *Pressure) float64 { return average(of(p)) }
}

// ParsePressure parses lines "some avg10=0.00 avg60=0.00 avg300=0.00 total=0".
func ParsePressure(data []byte) (Pressure, error) {
	var p Pressure
	some := false
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		word, rest := text.Field(line)
		var err error
		switch string(word) {
		case "some":
			p.Some, err = parseStall(rest)
			some = true
		case "full":
			p.Full, err = parseStall(rest)
		}
		if err != nil {
			return Pressure{}, err
		}
	}
	if !some {
		return Pressure{}, fmt.Errorf("%w: no line of some", ErrFormat)
	}
	return p, nil
}

func parseStall(rest []byte) (s Stall, err error) {
	for _, to := range []struct {
		key string
		v   *float64
	}{{"avg10=", &s.Avg10}, {"avg60=", &s.Avg60}, {"avg300=", &s.Avg300}} {
		var f []byte
		f, rest = text.Field(rest)
		v, ok := hundredths(f, to.key)
		if !ok {
			return Stall{}, fmt.Errorf("%w: %.80q where %s was to be", ErrFormat, f, to.key)
		}
		*to.v = v
	}
	f, _ := text.Field(rest)
	const key = "total="
	if len(f) <= len(key) || string(f[:len(key)]) != key {
		return Stall{}, fmt.Errorf("%w: %.80q where %s was to be", ErrFormat, f, key)
	}
	us, _, ok := text.Decimal(f[len(key):])
	if !ok || us > uint64(1<<63-1)/1000 {
		return Stall{}, fmt.Errorf("%w: %.80q", ErrFormat, f)
	}
	s.Total = time.Duration(us) * time.Microsecond
	return s, nil
}

// hundredths parses "avg10=12.34".
func hundredths(f []byte, key string) (float64, bool) {
	if len(f) < len(key) || string(f[:len(key)]) != key {
		return 0, false
	}
	whole, rest, ok := text.Decimal(f[len(key):])
	if !ok || len(rest) != 3 || rest[0] != '.' {
		return 0, false
	}
	part, rest, ok := text.Decimal(rest[1:])
	return float64(whole) + float64(part)/100, ok && len(rest) == 0
}
