package render

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// significant formats v, which is below 1024, with three significant digits:
// 1.23, 12.3, 123; 1023 keeps four.
func significant(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// scaled divides n by base until it fits below base once rounded, and returns
// the quotient and the number of divisions, at most 6.
func scaled(n, base float64) (float64, int) {
	steps := 0
	for math.Round(n) >= base && steps < 6 {
		n /= base
		steps++
	}
	return n, steps
}

// size formats bytes: "0 B", "1.23 KiB", "12.3 MiB".
func size(n uint64) string {
	v, steps := scaled(float64(n), 1024)
	if steps == 0 {
		return strconv.FormatUint(n, 10) + " B"
	}
	return significant(v) + " " + "KMGTPE"[steps-1:steps] + "iB"
}

// shortSize formats bytes for narrow tables: "0", "1.23K" (KiB), "12.3M" (MiB).
func shortSize(n uint64) string {
	v, steps := scaled(float64(n), 1024)
	if steps == 0 {
		return strconv.FormatUint(n, 10)
	}
	return significant(v) + "KMGTPE"[steps-1:steps]
}

// signed puts the sign of n before its magnitude as format writes it; 0 has none.
func signed(n int64, format func(uint64) string) string {
	switch {
	case n > 0:
		return "+" + format(uint64(n))
	case n < 0:
		return "-" + format(-uint64(n))
	}
	return format(0)
}

// shortCount formats a count in at most five columns up to 10^18: "99999",
// "123k", "1.23M" (powers of 1000).
func shortCount(n uint64) string {
	if n < 100_000 {
		return strconv.FormatUint(n, 10)
	}
	v, steps := scaled(float64(n), 1000)
	return significant(v) + "kMGTPE"[steps-1:steps]
}

// count formats a count exactly, with separators: "1,234,567".
func count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// counted is count with the noun in the right number.
func counted(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// rate formats n per window as "12.3k/s"; an empty window gives "".
func rate(n, windowNS uint64) string {
	if windowNS == 0 {
		return ""
	}
	perSecond := float64(n) / (float64(windowNS) / 1e9)
	v, steps := scaled(perSecond, 1000)
	unit := ""
	if steps > 0 {
		unit = "kMGTPE"[steps-1 : steps]
	}
	if perSecond == 0 {
		return "0/s"
	}
	return significant(v) + unit + "/s"
}

// percent formats part of whole: "0%", "<1%", "23%"; a whole of 0 gives "-".
func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case part == 0:
		return "0%"
	case p < 1:
		return "<1%"
	case p > 99 && part < whole:
		return ">99%"
	}
	return fmt.Sprintf("%.0f%%", p)
}

// duration formats nanoseconds with three significant digits below 100 s and
// in two units above: "340 ns", "1.23 ms", "99.9 s", "2m03s", "3h04m", "5d06h".
func duration(ns uint64) string {
	f := float64(ns)
	switch {
	case ns < 1000:
		return strconv.FormatUint(ns, 10) + " ns"
	case math.Round(f/1e3) < 1000:
		return significant(f/1e3) + " µs"
	case math.Round(f/1e6) < 1000:
		return significant(f/1e6) + " ms"
	case f < 99.95e9:
		return significant(f/1e9) + " s"
	}
	return longDuration(ns)
}

func longDuration(ns uint64) string {
	s := ns / uint64(time.Second)
	switch {
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// shortDuration is duration without its space, for tables.
func shortDuration(ns uint64) string {
	s := []byte(duration(ns))
	out := s[:0]
	for _, c := range s {
		if c != ' ' {
			out = append(out, c)
		}
	}
	return string(out)
}
