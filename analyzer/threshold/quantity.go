package threshold

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Unit says what a Quantity counts.
type Unit uint8

const (
	// Plain is a bare number.
	Plain Unit = iota
	// Size is bytes.
	Size
	// Share is a percentage; its Number is 80 for "80%".
	Share
	// Time is nanoseconds.
	Time
)

var unitWords = [...]string{"a plain number", "a size", "a percentage", "a time"}

// String says what the unit is, such as "a size".
func (u Unit) String() string {
	if int(u) < len(unitWords) {
		return unitWords[u]
	}
	return "unknown"
}

// Quantity is a number with its unit. Per is 0, or the time that a rate is
// by: "1MiB/min" is 1,048,576 bytes per minute.
type Quantity struct {
	Number float64
	Unit   Unit
	Per    time.Duration
}

// maxText bounds what is parsed; the longest sensible condition is a cgroup's path.
const maxText = 8 << 10

// units are the words after a number and what one of them is worth. Words of
// two letters and more may be written in any case.
var units = map[string]Quantity{
	"":  {1, Plain, 0},
	"%": {1, Share, 0},
	"B": {1, Size, 0},
	"k": {1 << 10, Size, 0}, "K": {1 << 10, Size, 0}, "M": {1 << 20, Size, 0},
	"G": {1 << 30, Size, 0}, "T": {1 << 40, Size, 0}, "P": {1 << 50, Size, 0},
	"kib": {1 << 10, Size, 0}, "mib": {1 << 20, Size, 0}, "gib": {1 << 30, Size, 0}, "tib": {1 << 40, Size, 0}, "pib": {1 << 50, Size, 0},
	"kb": {1e3, Size, 0}, "mb": {1e6, Size, 0}, "gb": {1e9, Size, 0}, "tb": {1e12, Size, 0}, "pb": {1e15, Size, 0},
	"ns": {1, Time, 0}, "us": {1e3, Time, 0}, "ms": {1e6, Time, 0},
	"s": {1e9, Time, 0}, "min": {60e9, Time, 0}, "h": {3600e9, Time, 0}, "d": {86400e9, Time, 0},
}

// ParseQuantity parses a number with its unit, such as "80%", "1.5GiB", "1e6",
// "30s" or "1MiB/min". Negative numbers are refused.
func ParseQuantity(text string) (Quantity, error) {
	if len(text) > maxText {
		return Quantity{}, fmt.Errorf("%.20q… is too long", text)
	}
	amount, per, isRate := strings.Cut(text, "/")
	q, err := parseAmount(amount)
	if err != nil || !isRate {
		return q, err
	}
	if q.Per, err = parsePer(per); err != nil {
		return Quantity{}, err
	}
	return q, nil
}

func parseAmount(text string) (Quantity, error) {
	text = strings.TrimSpace(text)
	n := numberLength(text)
	if n == 0 {
		return Quantity{}, fmt.Errorf("%q does not begin with a number", text)
	}
	number, err := strconv.ParseFloat(text[:n], 64)
	if err != nil {
		return Quantity{}, fmt.Errorf("%q is not a number that can be used", text[:n])
	}
	word := strings.TrimSpace(text[n:])
	unit, ok := units[word]
	if !ok && len(word) > 1 {
		unit, ok = units[strings.ToLower(word)]
	}
	if !ok {
		return Quantity{}, unknownUnit(text, word)
	}
	q := Quantity{Number: number * unit.Number, Unit: unit.Unit}
	if math.IsInf(q.Number, 0) {
		return Quantity{}, fmt.Errorf("%q is too large", text)
	}
	return q, nil
}

func unknownUnit(text, word string) error {
	if word == "m" {
		return fmt.Errorf("the unit of %q may mean two things: write M or MiB for a size, min for minutes", text)
	}
	return fmt.Errorf("%q has the unknown unit %q (sizes: B, KiB, MiB, GiB, kB, MB, GB; shares: %%; times: ms, s, min, h, d)", text, word)
}

// numberLength is how many bytes at the start of text are a number: digits
// with at most one dot and an exponent. Hexadecimal, "inf" and "nan", which
// strconv takes as well, are no amounts.
func numberLength(text string) int {
	i := digits(text, 0)
	if i < len(text) && text[i] == '.' {
		i = digits(text, i+1)
	}
	if i == 0 || i == 1 && text[0] == '.' {
		return 0
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		if end := digits(text, j); end > j {
			return end
		}
	}
	return i
}

func digits(text string, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}

// parsePer parses what follows the slash of a rate: "s", "min", "5min".
func parsePer(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if numberLength(text) == 0 {
		text = "1" + text
	}
	q, err := parseAmount(text)
	if err != nil || q.Unit != Time || q.Number < 1 || q.Number > math.MaxInt64/2 {
		return 0, fmt.Errorf("a rate is per time, such as 1MiB/min; %q is no time", text)
	}
	return time.Duration(q.Number), nil
}

// ParseSize parses an amount of bytes: "200MiB", "1MB", "4096".
func ParseSize(text string) (uint64, error) {
	q, err := ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	v, err := q.Bytes()
	return uint64(v), err
}

// maxSize keeps a size within what fits an int64.
const maxSize = 1 << 62

// Bytes is an amount of bytes; a plain number counts as one.
func (q Quantity) Bytes() (float64, error) {
	switch {
	case q.Per != 0:
		return 0, fmt.Errorf("a size is wanted, such as 200MiB, not a rate")
	case q.Unit != Size && q.Unit != Plain:
		return 0, fmt.Errorf("a size is wanted, such as 200MiB, not %s", q.Unit)
	case q.Number > maxSize:
		return 0, fmt.Errorf("the size is too large")
	}
	return q.Number, nil
}

// BytesPerSecond is a rate of bytes.
func (q Quantity) BytesPerSecond() (float64, error) {
	if q.Per == 0 || q.Unit != Size && q.Unit != Plain {
		return 0, fmt.Errorf("a rate is wanted, such as 1MiB/min")
	}
	return q.Number / q.Per.Seconds(), nil
}

// Count is a plain number.
func (q Quantity) Count() (float64, error) {
	if q.Per != 0 || q.Unit != Plain {
		return 0, fmt.Errorf("a number without unit is wanted, such as 1e6")
	}
	return q.Number, nil
}

// Percent is a share in percent; a plain number counts as one.
func (q Quantity) Percent() (float64, error) {
	if q.Per != 0 || q.Unit != Share && q.Unit != Plain {
		return 0, fmt.Errorf("a percentage is wanted, such as 80%%")
	}
	return q.Number, nil
}

// SizeText is bytes as people read them: "260.0KiB". ParseSize takes it where it is not negative.
func SizeText(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && math.Abs(bytes) >= 1024 {
		bytes, units = bytes/1024, units[1:]
	}
	return strconv.FormatFloat(bytes, 'f', 1, 64) + units[0]
}
