package alert

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/procfs"
)

// Figures are what a pass has found. Sizes are bytes.
type Figures struct {
	At       time.Time
	Memory   *procfs.Counters // /proc/meminfo; nil: it could not be read
	Pressure *procfs.Pressure // nil: the kernel has none
	OOMKills *uint64          // since boot; nil: it could not be read
	Services []Service
	Omitted  int // services that are not among these by themselves
}

// Service is what a service's processes came to.
type Service struct {
	Name      string
	Processes int
	RSS       uint64
	// Of these, the figures of Unread processes are not in the sums.
	PSS, Anon, USS, Swap uint64
	Unread               int
	// Grown is what has grown by stacks that are known; nil: nobody watches its growth.
	Grown *uint64
	// Sites are the lines of code with most of it; nil where Grown is.
	Sites func() []string
}

// Unit is what a reading is in.
type Unit uint8

const (
	Bytes Unit = iota
	Percent
	Count
	BytesPerSecond
)

var unitNames = [...]string{"bytes", "percent", "count", "bytes_per_second"}

// String is the unit in a word, such as "bytes".
func (u Unit) String() string { return unitNames[u] }

// reading is a figure. What it is made of may be partly missing: it is at least value then.
type reading struct {
	value   float64
	partial bool
}

// figure is what a condition is about.
type figure struct {
	unit  Unit
	limit float64 // in the unit
	// One of these reads it. whole is what a share is of, 0 where there is nothing.
	machine func(*Figures) (value, whole uint64, err error)
	service func(*Figures, *Service) (value, whole uint64, partial bool, err error)
	share   bool
	average func(*procfs.Pressure) float64
	course  bool // value is counted or measured over a time
}

// overTime reports whether the figure is about a span.
func (f *figure) overTime() bool { return f.course }

// meminfoFields are what conditions may name of /proc/meminfo.
var meminfoFields = map[string]string{
	"available": "MemAvailable", "free": "MemFree", "used": "MemAvailable", "cached": "Cached",
	"buffers": "Buffers", "anonpages": "AnonPages", "shmem": "Shmem", "slab": "Slab", "sunreclaim": "SUnreclaim", "kernelstack": "KernelStack", "pagetables": "PageTables",
	"dirty": "Dirty", "writeback": "Writeback", "committed_as": "Committed_AS",
}

// resolve finds the figure that a condition names.
func resolve(c threshold.Condition) (figure, error) {
	if c.Subject != "" {
		return resolveService(c)
	}
	head, rest, _ := strings.Cut(c.Metric, ".")
	switch {
	case head == "psi":
		return resolvePressure(c, rest)
	case head == "mem" && meminfoFields[rest] != "":
		return sized(c, figure{machine: meminfoFigure(rest)})
	case c.Metric == "swap", c.Metric == "swap.used", c.Metric == "swap.free":
		return sized(c, figure{machine: swapFigure(c.Metric == "swap.free")})
	case c.Metric == "oom_kills":
		return counted(c, figure{course: true, machine: func(f *Figures) (uint64, uint64, error) {
			if f.OOMKills == nil {
				return 0, 0, errors.New("/proc/vmstat doesn't count them")
			}
			return *f.OOMKills, 0, nil
		}})
	}
	return figure{}, fmt.Errorf("there is no figure %s of the machine; there are mem.available and the like, swap, swap.free, "+
		"psi.some.avg10 and the like, oom_kills, and of a service rss, pss, uss, swap, processes, grown and growth, such as pss(shop) or growth(*)", c.Metric)
}

func meminfoFigure(name string) func(*Figures) (value, whole uint64, err error) {
	return func(f *Figures) (value, whole uint64, err error) {
		switch {
		case f.Memory == nil:
			return 0, 0, errNoMeminfo
		case name == "used":
			return procfs.MemoryUsed(f.Memory)
		}
		return procfs.MemoryOf(f.Memory, meminfoFields[name])
	}
}

func swapFigure(free bool) func(*Figures) (value, whole uint64, err error) {
	return func(f *Figures) (value, whole uint64, err error) {
		switch {
		case f.Memory == nil:
			return 0, 0, errNoMeminfo
		case free:
			return procfs.SwapFree(f.Memory)
		}
		return procfs.SwapUsed(f.Memory)
	}
}

var errNoMeminfo = errors.New("/proc/meminfo could not be read")

// meminfo is a line of it, 0 where it can't be told.
func (f *Figures) meminfo(line string) (bytes uint64) {
	if f.Memory != nil {
		bytes, _ = f.Memory.Get(line)
	}
	return bytes
}

func resolvePressure(c threshold.Condition, name string) (figure, error) {
	average := procfs.PressureAverage(name)
	if average == nil {
		return figure{}, errors.New("pressure is psi.some or psi.full, with avg10, avg60 or avg300, such as psi.some.avg10")
	}
	limit, err := c.Value.Percent()
	return figure{unit: Percent, limit: limit, average: average}, err
}

// resolveService takes "pss" and the like of a service.
func resolveService(c threshold.Condition) (figure, error) {
	if strings.HasPrefix(c.Subject, "cgroup:") || strings.HasPrefix(c.Subject, "pid:") {
		return figure{}, fmt.Errorf("%s is no service: give a rule of services a name for it, and write %s(NAME)",
			c.Subject, c.Metric)
	}
	if _, err := path.Match(c.Subject, ""); err != nil {
		return figure{}, fmt.Errorf("%q is neither the name of a service nor a pattern of names: %w", c.Subject, err)
	}
	size := func(of func(*Service) uint64, whole string, partial bool) (figure, error) {
		return sized(c, figure{service: func(f *Figures, s *Service) (uint64, uint64, bool, error) {
			return of(s), f.meminfo(whole), partial && s.Unread > 0, nil // without it, there is no share
		}})
	}
	switch c.Metric {
	case "rss":
		return size(func(s *Service) uint64 { return s.RSS }, "MemTotal", false)
	case "pss":
		return size(func(s *Service) uint64 { return s.PSS }, "MemTotal", true)
	case "uss":
		return size(func(s *Service) uint64 { return s.USS }, "MemTotal", true)
	case "swap":
		return size(func(s *Service) uint64 { return s.Swap }, "SwapTotal", true)
	case "processes":
		return counted(c, figure{service: func(_ *Figures, s *Service) (uint64, uint64, bool, error) {
			return uint64(s.Processes), 0, false, nil
		}})
	case "grown":
		return sized(c, figure{service: grown})
	case "growth":
		limit, err := c.Value.BytesPerSecond()
		return figure{unit: BytesPerSecond, limit: limit, course: true, service: privateMemory}, err
	}
	return figure{}, fmt.Errorf("of a service there are rss, pss, uss, swap, processes, grown and growth; not %s",
		c.Metric)
}

func grown(f *Figures, s *Service) (value, whole uint64, partial bool, err error) {
	if s.Grown == nil {
		return 0, 0, false, errors.New("nobody watches its growth now: give its rule growth: true, or see watch_top")
	}
	return *s.Grown, f.meminfo("MemTotal"), false, nil
}

// privateMemory is what growth is about: anonymous memory, also where it is in swap.
func privateMemory(_ *Figures, s *Service) (value, whole uint64, partial bool, err error) {
	if s.Unread > 0 {
		return 0, 0, false, errUnread
	}
	return s.Anon + s.Swap, 0, false, nil
}

var errUnread = errors.New("not all of its processes could be read yet, or at all")

func sized(c threshold.Condition, f figure) (figure, error) {
	var err error
	if f.share = c.Value.Unit == threshold.Share; f.share {
		f.unit = Percent
		f.limit, err = c.Value.Percent()
	} else {
		f.limit, err = c.Value.Bytes()
	}
	return f, err
}

func counted(c threshold.Condition, f figure) (figure, error) {
	var err error
	f.unit = Count
	f.limit, err = c.Value.Count()
	return f, err
}

// read reads the figure of an instant; s is nil for the machine's.
func (f *figure) read(all *Figures, s *Service) (reading, error) {
	var value, whole uint64
	var partial bool
	var err error
	switch {
	case f.average != nil && all.Pressure == nil:
		return reading{}, errors.New("this kernel tells no memory pressure (PSI)")
	case f.average != nil:
		return reading{value: f.average(all.Pressure)}, nil
	case s != nil:
		value, whole, partial, err = f.service(all, s)
	default:
		value, whole, err = f.machine(all)
	}
	switch {
	case err != nil:
		return reading{}, err
	case !f.share:
		return reading{float64(value), partial}, nil
	case whole == 0:
		return reading{}, errors.New("there is nothing that it could be a share of; compare with a size, such as 1GiB")
	}
	return reading{100 * float64(value) / float64(whole), partial}, nil
}

// isPattern reports whether a subject stands for more services than the one of that name.
func isPattern(subject string) bool { return strings.ContainsAny(subject, `*?[\`) }

// covers reports whether a rule is about a service. "*" is about all.
func (r *Rule) covers(name string) bool {
	if r.condition.Subject == name || r.condition.Subject == "*" {
		return true
	}
	ok, err := path.Match(asOneName(r.condition.Subject), asOneName(name))
	return err == nil && ok
}

// asOneName has * and ? of a pattern match the / in names of pods, too: shop/web-1 is no path.
func asOneName(text string) string { return strings.ReplaceAll(text, "/", "\x00") }

// text is a figure as people read it.
func text(v float64, unit Unit) string {
	switch unit {
	case Percent:
		return strconv.FormatFloat(v, 'f', 1, 64) + "%"
	case Count:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case BytesPerSecond:
		return threshold.SizeText(v*3600) + "/h"
	}
	return threshold.SizeText(v)
}
