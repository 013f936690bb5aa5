package watch

import (
	"errors"
	"strings"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/procfs"
)

// Unit is what a reading is in.
type Unit uint8

const (
	Bytes Unit = iota
	Percent
	Count
)

// reading is a figure beside its limit, both in the same unit.
type reading struct {
	value, limit float64
	unit         Unit
}

// figure reads what a condition is about.
type figure interface {
	read(*source) (reading, error)
}

// resolve finds the figure that a condition names.
func resolve(c threshold.Condition, src *source) (figure, error) {
	head, rest, _ := strings.Cut(c.Metric, ".")
	if path, ok := strings.CutPrefix(c.Subject, "cgroup:"); ok {
		return resolveGroup(c, path)
	}
	switch {
	case head == "psi" && c.Subject == "":
		return newPressure(c, rest)
	case head == "mem" && c.Subject == "" && rest != "":
		return resolveMachine(c, src, rest)
	case (c.Metric == "swap" || c.Metric == "swap.used" || c.Metric == "swap.free") && c.Subject == "":
		return sizeLimit(c, &swapFigure{free: c.Metric == "swap.free"})
	case isProcessFigure(c.Metric):
		return resolveProcess(c, src)
	}
	return nil, usageError("there is no figure %s; there are mem.FIELD of /proc/meminfo, swap, psi.some.avg10 and the like, "+
		"of processes rss, pss, uss and swap, such as pss(redis) or rss(pid:123), and of control groups used, working, swap, oom_kills and "+
		"psi.some.avg10, such as working(cgroup:/system.slice/nginx.service)", describe(c))
}

func describe(c threshold.Condition) string {
	if c.Subject == "" {
		return c.Metric
	}
	return c.Metric + "(" + c.Subject + ")"
}

// limit is a condition's value, as an amount or as a share of a whole.
type limit struct {
	bytes   float64
	percent float64
	share   bool
}

// amount is a figure in bytes, with the whole that a share is of.
type amount interface {
	amount(*source) (value, whole uint64, err error)
}

// sized compares an amount with a size, or its share of the whole with a percentage.
type sized struct {
	amount
	limit
}

func sizeLimit(c threshold.Condition, a amount) (figure, error) {
	s := &sized{amount: a}
	var err error
	if s.share = c.Value.Unit == threshold.Share; s.share {
		s.percent, err = c.Value.Percent()
	} else {
		s.bytes, err = c.Value.Bytes()
	}
	if err != nil {
		return nil, usageError("%v", err)
	}
	return s, nil
}

func (s *sized) read(src *source) (reading, error) {
	value, whole, err := s.amount.amount(src)
	if err != nil {
		return reading{}, err
	}
	if !s.share {
		return reading{float64(value), s.bytes, Bytes}, nil
	}
	if whole == 0 {
		return reading{}, errors.New("there is nothing that it could be a share of; compare with a size, such as 1GiB")
	}
	return reading{100 * float64(value) / float64(whole), s.percent, Percent}, nil
}

// machineFigure is a line of meminfo; used is what is not available.
type machineFigure struct {
	field string
	used  bool
}

// resolveMachine takes "available" for MemAvailable, "cached" for Cached, and
// "used" for what isn't available.
func resolveMachine(c threshold.Condition, src *source, name string) (figure, error) {
	if name == "used" {
		return sizeLimit(c, &machineFigure{field: "MemAvailable", used: true})
	}
	if err := src.readMeminfo(); err != nil {
		return nil, err
	}
	for _, prefix := range []string{"Mem", ""} {
		for i := range src.meminfo.Len() {
			if field, _ := src.meminfo.At(i); strings.EqualFold(field, prefix+name) {
				return sizeLimit(c, &machineFigure{field: field})
			}
		}
	}
	return nil, usageError("this kernel's /proc/meminfo has neither Mem%s nor %s", name, name)
}

func (m *machineFigure) amount(src *source) (value, whole uint64, err error) {
	if err := src.readMeminfo(); err != nil {
		return 0, 0, err
	}
	if m.used {
		return procfs.MemoryUsed(&src.meminfo)
	}
	return procfs.MemoryOf(&src.meminfo, m.field)
}

// swapFigure is the machine's swap, used or free.
type swapFigure struct{ free bool }

func (s *swapFigure) amount(src *source) (value, whole uint64, err error) {
	if err := src.readMeminfo(); err != nil {
		return 0, 0, err
	}
	if s.free {
		return procfs.SwapFree(&src.meminfo)
	}
	return procfs.SwapUsed(&src.meminfo)
}

// pressureFigure is one average of memory pressure.
type pressureFigure struct {
	of      func(*procfs.Pressure) float64
	percent float64
}

func newPressure(c threshold.Condition, name string) (*pressureFigure, error) {
	average := procfs.PressureAverage(name)
	if average == nil {
		return nil, usageError("pressure is psi.some or psi.full, with avg10, avg60 or avg300, such as psi.some.avg10")
	}
	percent, err := c.Value.Percent()
	if err != nil {
		return nil, usageError("%v", err)
	}
	return &pressureFigure{of: average, percent: percent}, nil
}

func (p *pressureFigure) read(src *source) (reading, error) {
	now, err := src.readPressure()
	if err != nil {
		return reading{}, err
	}
	return reading{p.of(&now), p.percent, Percent}, nil
}
