package recording

import (
	"errors"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
)

var errEnough = errors.New("enough")

// Who watches is told how far the reading is, from 0 to 1, and can end it.
func TestWatch(t *testing.T) {
	t.Parallel()
	x := traceOf(6, 300)
	defer x.analyzer.Close()
	r := open(t, record(t, Options{}, x.inputs...))
	var told []float64
	end := 2.0
	r.Watch = func(done float64) error {
		if told = append(told, done); done >= end {
			return errEnough
		}
		return nil
	}
	middle := x.events[len(x.events)/2].Time
	for name, play := range map[string]func() error{
		"inputs": func() error { return r.Inputs(func(input.Input) error { return nil }, nil) },
		"end":    func() error { _, _, err := r.ReportAt(End, Rooms{}, final); return err },
		"middle": func() error { _, _, err := r.ReportAt(middle, Rooms{}, analyzer.ReportOptions{}); return err },
	} {
		told, end = nil, 2
		if err := play(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(told) < 5 || told[0] > 0.1 || told[len(told)-1] != 1 || !slices.IsSorted(told) {
			t.Errorf("%s: told of %v", name, told)
		}
		told, end = nil, 0.3
		if err := play(); !errors.Is(err, errEnough) || told[len(told)-1] > 0.9 {
			t.Errorf("%s: %v, told of %v", name, err, told)
		}
	}
}
