package top

import (
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

func TestFiguresAreWritten(t *testing.T) {
	for _, c := range []struct {
		value Value
		want  string
	}{
		{value(known(0), Bytes), "0"},
		{value(known(1536), Bytes), "1.50K"},
		{value(known(-2*mib), Bytes), "-2.00M"},
		{value(known(2*mib), Change), "+2.00M"},
		{value(known(-2*mib), Change), "-2.00M"},
		{value(known(0), Change), "0"},
		{value(known(123456), Count), "123k"},
		{value(known(-100), Plain), "-100"},
		{value(known(1234), Percent), "12.3"},
		{value(known(10_000), Percent), "100"},
		{value(known(123_449), Percent), "1234"},
		{value(known(int64(83*time.Second+456*time.Millisecond)), Clock), "1:23.45"},
		{value(known(int64(200*time.Minute+7*time.Second)), Clock), "200:07"},
		{value(known(int64(1000*time.Hour)), Clock), "1000h"},
		{value(known(0), Age), "now"},
		{value(known(int64(3500*time.Millisecond)), Age), "3.5s"},
		{value(known(int64(5*time.Minute)), Age), "5m"},
		{Value{Figure: known(mib), Unit: Bytes, AtLeast: true}, ">1.00M"},
		{Value{Figure: Figure{N: mib, State: Known, Estimated: true}, Unit: Bytes}, "~1.00M"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%+v is written %q, want %q", c.value, got, c.want)
		}
	}
}

// A figure that could not be read is never shown as a number.
func TestUnknownFiguresHaveNoDigits(t *testing.T) {
	marks := make(map[string]bool)
	for _, state := range []State{Unread, Denied, None, Unsupported} {
		for unit := Text; unit <= Bar; unit++ {
			s := Value{Figure: Figure{N: 5, State: state}, Unit: unit, Text: "5"}.String()
			if s == "" || strings.ContainsAny(s, "0123456789") {
				t.Errorf("state %v, unit %d: %q", state, unit, s)
			}
			marks[s] = true
		}
	}
	if len(marks) != 4 {
		t.Errorf("four reasons have the marks %v", marks)
	}
	if got := jsonCell(value(denied, Bytes)); got != nil {
		t.Errorf("JSON has %v for a figure that may not be read", got)
	}
}

func TestTextIsMadePrintable(t *testing.T) {
	s := text("a\x1b]0;title\x07\n\u202eb\xff").String()
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\u202e' || r == '\ufffd' {
			t.Fatalf("%q still has %U", s, r)
		}
	}
}

func TestBars(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 8, "····"}, {8, 8, "████"}, {1, 8, "▌···"}, {4, 8, "██··"}, {99, 8, "████"}, {-1, 8, "····"}, {1, 0, "    "},
	} {
		if got := tui.Unicode.Bar(c.part, c.whole, 4); got != c.want {
			t.Errorf("bar of %d in %d: %q, want %q", c.part, c.whole, got, c.want)
		}
	}
	if got := tui.Unicode.Stacked([]int64{2, 1, 1}, 4, 8); got != "████▒▒░░" {
		t.Errorf("stacked: %q", got)
	}
	if got := tui.Unicode.Stacked([]int64{1, 0, 999}, 1000, 4); got != "█░░░" {
		t.Errorf("a part that is hardly there gets a column: %q", got)
	}
	if got := tui.Unicode.Sparkline([]int64{10, 20, 30}, 5); got != "  ▁▅█" {
		t.Errorf("sparkline: %q", got)
	}
	if got := tui.ASCII.Bar(4, 8, 4); got != "##.." {
		t.Errorf("ASCII bar: %q", got)
	}
}

func TestLocaleChoosesCharacters(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want *tui.Charset
	}{
		{map[string]string{"LANG": "en_GB.UTF-8"}, &tui.Unicode},
		{map[string]string{"LANG": "C"}, &tui.ASCII},
		{map[string]string{"LC_ALL": "POSIX", "LANG": "C.utf8"}, &tui.ASCII},
		{map[string]string{}, &tui.Unicode},
	} {
		if got := tui.CharsFor(func(key string) string { return c.env[key] }); got != c.want {
			t.Errorf("%v chose the other characters", c.env)
		}
	}
}
