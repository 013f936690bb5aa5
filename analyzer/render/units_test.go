package render

import (
	"math"
	"testing"
)

func TestUnits(t *testing.T) {
	const s = 1_000_000_000
	for _, c := range []struct{ got, want string }{
		{size(0), "0 B"}, {size(1023), "1023 B"}, {size(1024), "1.00 KiB"}, {size(10_235), "10.0 KiB"},
		{size(1024*1024 - 1), "1.00 MiB"}, {size(1023 * 1024), "1023 KiB"}, {size(12_700_000), "12.1 MiB"},
		{size(3 << 30), "3.00 GiB"}, {size(math.MaxUint64), "16.0 EiB"},
		{shortSize(1536), "1.50K"}, {signed(-2048, shortSize), "-2.00K"}, {signed(0, size), "0 B"},
		{signed(math.MinInt64, shortSize), "-8.00E"},
		{shortCount(99_999), "99999"}, {shortCount(100_000), "100k"}, {shortCount(999_999), "1.00M"}, {shortCount(math.MaxUint64), "18.4E"},
		{count(0), "0"}, {count(999), "999"}, {count(1_234_567), "1,234,567"}, {counted(1, "block", "blocks"), "1 block"},
		{rate(10, 4*s), "2.50/s"}, {rate(1_234_567, 10*s), "123k/s"}, {rate(0, s), "0/s"}, {rate(1, 0), ""},
		{percent(0, 5), "0%"}, {percent(1, 1000), "<1%"}, {percent(999, 1000), ">99%"}, {percent(5, 5), "100%"}, {percent(1, 0), "-"},
		{duration(999), "999 ns"}, {duration(999_999), "1.00 ms"}, {duration(1500), "1.50 µs"}, {duration(99*s + 940_000_000), "99.9 s"},
		{duration(123 * s), "2m03s"}, {duration(3*3600*s + 240*s), "3h04m"}, {duration(5*86400*s + 6*3600*s), "5d06h"}, {shortDuration(2 * s), "2.00s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain name": "plain name", "größe": "größe", "a\tb": `a\x09b`, "\x1b[31m": `\x1b[31m`, "\x7f": `\x7f`,
		"\u009b2J": `\u009b2J`, "x\u202ey": `x\u202ey`, "\xff\xfe": `\xff\xfe`, "\U000e0001": `\U000e0001`, "\ufffd": "\ufffd",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestElide(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{elide("abcdefghij", 5), "ab…ij"}, {elide("abc", 3), "abc"}, {elide("abc", 0), "abc"}, {elide("abcdef", 1), "…"},
		{elide("漢字漢字", 5), "漢…字"}, {clip("abcdef", 4), "abc…"},
		{elidePath("/usr/src/app/list.c", 12), "…/app/list.c"}, {elidePath("/usr/src/list.c", 6), "/l…t.c"}, {elidePath("list.c", 10), "list.c"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
