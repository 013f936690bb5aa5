package report

import (
	"fmt"
	"math"
	"time"
)

// HumanBytes writes a number of bytes with three significant digits: "1.20 KiB".
func HumanBytes(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; math.Round(v) >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	digits := 0
	if i > 0 || v < 10 {
		digits = max(0, 2-int(math.Floor(math.Log10(max(v, 1)))))
	}
	return fmt.Sprintf("%.*f %s", digits, v, units[i])
}

// HumanTime writes nanoseconds with three significant digits below an hour: "1.23s", "123ms".
func HumanTime(ns uint64) string {
	d := time.Duration(min(ns, math.MaxInt64))
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Second).String()
}
