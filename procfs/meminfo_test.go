//go:build linux && !viewer

package procfs

import (
	"errors"
	"testing"
)

// What is used is what is not available or free; a machine without swap, or a kernel without a line, has no such
// figure.
func TestMemoryFigures(t *testing.T) {
	parsed := func(text string) *Counters {
		c := new(Counters)
		if err := c.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	machine := parsed("MemTotal: 100 kB\nMemAvailable: 30 kB\nCached: 7 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n")
	cached := func(c *Counters) (uint64, uint64, error) { return MemoryOf(c, "Cached") }
	for what, test := range map[string]struct {
		of          func(*Counters) (uint64, uint64, error)
		want, whole uint64
	}{
		"used": {MemoryUsed, 70, 100}, "cached": {cached, 7, 100}, "swap free": {SwapFree, 4, 10}, "swap used": {SwapUsed, 6, 10},
	} {
		if bytes, whole, err := test.of(machine); err != nil || bytes != test.want<<10 || whole != test.whole<<10 {
			t.Errorf("%s: %d of %d, %v", what, bytes, whole, err)
		}
		if _, _, err := test.of(parsed("")); err == nil {
			t.Errorf("%s: of nothing", what)
		}
	}
	for _, of := range []func(*Counters) (uint64, uint64, error){SwapFree, SwapUsed} {
		if _, _, err := of(parsed("SwapTotal: 0 kB\nSwapFree: 0 kB\n")); !errors.Is(err, ErrNoSwap) {
			t.Errorf("without swap: %v", err)
		}
	}
}

// Averages have the names that conditions give them.
func TestPressureAverage(t *testing.T) {
	p := Pressure{Some: Stall{Avg10: 1, Avg60: 2, Avg300: 3}, Full: Stall{Avg10: 4, Avg60: 5, Avg300: 6}}
	for name, want := range map[string]float64{"some.avg10": 1, "some.avg60": 2, "some.avg300": 3, "full.avg10": 4,
		"full.avg60": 5, "full.avg300": 6} {
		if of := PressureAverage(name); of == nil || of(&p) != want {
			t.Errorf("%s is not %v", name, want)
		}
	}
	for _, name := range []string{"", "some", "any.avg10", "some.avg", "some.avg10.x"} {
		if PressureAverage(name) != nil {
			t.Errorf("there is no %q", name)
		}
	}
}
