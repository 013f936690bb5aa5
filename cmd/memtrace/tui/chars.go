package tui

import "strings"

// Charset is what bars are drawn with. A terminal whose locale is not UTF-8
// gets ASCII.
type Charset struct {
	eighths []string // of a cell, from none to all
	fills   []string // of a bar's parts
	rest    string
	levels  []string // of a sparkline
}

// What a terminal can show.
var (
	Unicode = Charset{
		eighths: []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"},
		fills:   []string{"█", "▒", "░"},
		rest:    "·",
		levels:  []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
	}
	ASCII = Charset{
		eighths: []string{"", "", "", "", "", "#", "#", "#", "#"},
		fills:   []string{"#", "=", "-"},
		rest:    ".",
		levels:  []string{"_", ".", ":", "-", "=", "+", "*", "#"},
	}
)

// CharsFor chooses by the locale (setlocale(3): LC_ALL, LC_CTYPE, LANG).
func CharsFor(getenv func(string) string) *Charset {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(getenv(key)); v != "" {
			if strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8") {
				return &Unicode
			}
			return &ASCII
		}
	}
	return &Unicode
}

// Bar draws part of whole in width columns.
func (c *Charset) Bar(part, whole int64, width int) string {
	if width <= 0 || whole <= 0 {
		return strings.Repeat(" ", max(width, 0))
	}
	eighths := int(float64(min(max(part, 0), whole))/float64(whole)*float64(8*width) + 0.5)
	full, more := eighths/8, c.eighths[eighths%8]
	s := strings.Repeat(c.eighths[8], full) + more
	used := full
	if more != "" {
		used++
	}
	return s + strings.Repeat(c.rest, width-used)
}

// Stacked draws the parts of whole side by side, in different fills. A part
// that isn't zero gets a column if there is one.
func (c *Charset) Stacked(parts []int64, whole int64, width int) string {
	if width <= 0 || whole <= 0 {
		return strings.Repeat(" ", max(width, 0))
	}
	var b strings.Builder
	used, done := 0, int64(0)
	for i, part := range parts {
		done += max(part, 0)
		end := min(int(float64(min(done, whole))/float64(whole)*float64(width)+0.5), width)
		if part > 0 && end <= used && used < width {
			end = used + 1
		}
		if n := end - used; n > 0 {
			b.WriteString(strings.Repeat(c.fills[i%len(c.fills)], n))
			used = end
		}
	}
	return b.String() + strings.Repeat(c.rest, width-used)
}

// Sparkline draws the last values, oldest first, between their smallest and
// largest; a flat line of nonzero values is drawn at half height, as its height
// says nothing.
func (c *Charset) Sparkline(values []int64, width int) string {
	values = values[max(0, len(values)-width):]
	low, high := int64(0), int64(0)
	for i, v := range values {
		if i == 0 {
			low = v
		}
		low, high = min(low, v), max(high, v)
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", max(width-len(values), 0)))
	for _, v := range values {
		b.WriteString(c.levels[level(v, low, high, len(c.levels))])
	}
	return b.String()
}

// level spreads values over the range that they have, so that small changes
// of a large process show.
func level(v, low, high int64, levels int) int {
	if high == low {
		if high == 0 {
			return 0
		}
		return levels/2 - 1
	}
	return min(int(float64(v-low)/float64(high-low)*float64(levels-1)+0.5), levels-1)
}
