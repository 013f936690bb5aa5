// Package figures has what benchmarks say of their figures: medians and
// spreads, and on what machine they were had.
package figures

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Noisy is the spread of what is compared with from which figures are not to be trusted.
const Noisy = 0.10

// MinRounds is the number of rounds from which a ratio may be quoted.
const MinRounds = 7

// Quantile of values, by linear interpolation.
func Quantile(values []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// Median of values.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Spread is the middle half of the values over their median.
func Spread(values []float64) float64 {
	return (Quantile(values, 0.75) - Quantile(values, 0.25)) / Median(values)
}

// Ratio is the median of ratios of pairs, which are too few to be quoted below MinRounds.
func Ratio(ratios []float64, digits int) string {
	if len(ratios) < MinRounds {
		return "too few pairs"
	}
	return fmt.Sprintf("%.*f ×", digits, Median(ratios))
}

// Today is the date that a figure is of.
func Today() string { return time.Now().UTC().Format(time.DateOnly) }

// Machine describes what this ran on, without naming it.
func Machine() string {
	var u unix.Utsname
	release := "?"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
		if parts := strings.SplitN(release, ".", 3); len(parts) > 1 {
			minor, _, _ := strings.Cut(parts[1], "-")
			release = parts[0] + "." + minor
		}
	}
	kind := ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil && strings.Contains(string(text), " hypervisor") {
		kind = " of a virtual machine"
	}
	return fmt.Sprintf("%d %s processors%s, Linux %s", runtime.NumCPU(), runtime.GOARCH, kind, release)
}

// Load is the machine's load average of the last minute.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
