package top

import (
	"fmt"
	"strconv"
	"time"

	"github.com/memtrace/memtrace/analyzer/render"
)

// Marks that stand for figures that are not known; the help page and the
// status line explain them.
var stateMarks = [...]string{Unread: "…", Denied: "?", None: "-", Unsupported: "n/a"}

// stateWords are the same for CSV's legend, JSON and the help page.
var stateWords = [...]string{Unread: "not read yet", Known: "known", Denied: "no permission", None: "none", Unsupported: "not on this kernel"}

// String returns the state in words, such as "no permission".
func (s State) String() string {
	if int(s) < len(stateWords) {
		return stateWords[s]
	}
	return "not read"
}

// String writes the value for a cell of a table. It is printable, whatever
// the Text.
func (v Value) String() string {
	if !v.Known() {
		if int(v.State) < len(stateMarks) {
			return stateMarks[v.State]
		}
		return "…"
	}
	s := v.number()
	switch {
	case v.AtLeast:
		return ">" + s
	case v.Estimated, v.Stale:
		return "~" + s
	}
	return s
}

func (v Value) number() string {
	switch v.Unit {
	case Text:
		return render.Clean(v.Text)
	case Bar:
		return v.Text
	case Bytes, Change:
		return signedBytes(v.N, v.Unit == Change)
	case Count:
		return render.ShortCount(uint64(max(v.N, 0)))
	case Percent:
		return percent(v.N)
	case Clock:
		return clock(time.Duration(v.N))
	case Age:
		return age(time.Duration(v.N))
	}
	return strconv.FormatInt(v.N, 10)
}

// signedBytes writes bytes; a plus only where it is a change.
func signedBytes(n int64, change bool) string {
	if n > 0 && !change {
		return render.ShortSize(uint64(n))
	}
	return render.SignedSize(n)
}

// percent writes hundredths of a percent: "0.0", "12.3", "100", "1234".
func percent(n int64) string {
	if n >= 10_000 || n <= -10_000 {
		return strconv.FormatInt((n+50)/100, 10)
	}
	return strconv.FormatFloat(float64(n)/100, 'f', 1, 64)
}

// clock writes CPU time as top does: "1:23.45", "123:45", "99h".
func clock(d time.Duration) string {
	minutes, seconds := int64(d/time.Minute), d%time.Minute
	switch {
	case minutes < 100:
		return fmt.Sprintf("%d:%05.2f", minutes, seconds.Truncate(10*time.Millisecond).Seconds())
	case minutes < 10_000:
		return fmt.Sprintf("%d:%02d", minutes, seconds/time.Second)
	}
	return fmt.Sprintf("%dh", minutes/60)
}

// age writes how old a figure is in at most four columns.
func age(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return "now"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}
