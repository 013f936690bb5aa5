package threshold

import (
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/testdata/costtest"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "4096": 4096, "17B": 17, "1K": 1024, "1k": 1024, "1KiB": 1024, "1kB": 1000, "1KB": 1000,
		"200MiB": 209715200, "200mib": 209715200, "1MB": 1000000, "1.5GiB": 1610612736, " 2 GiB ": 2147483648,
		"1e6": 1000000, "1E3": 1000, "2.5e-1MB": 250000, ".5KiB": 512, "3T": 3298534883328,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "MiB", "-1", "0x10", "inf", "nan", "1XiB", "1 M B", "5m", "1e999", "1e30", "80%", "3s", "1MiB/s", "1ee3", "1.2.3"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]Condition{
		"swap>80%":                    {"swap", "", Above, Quantity{80, Share, 0}, ""},
		"pss(redis)>2GiB":             {"pss", "redis", Above, Quantity{2 << 30, Size, 0}, ""},
		" pss ( pid:12 ) >= 1 MB ":    {"pss", "pid:12", AtLeast, Quantity{1e6, Size, 0}, ""},
		"psi.some.avg10>10":           {"psi.some.avg10", "", Above, Quantity{10, Plain, 0}, ""},
		"mem.available<10%":           {"mem.available", "", Below, Quantity{10, Share, 0}, ""},
		"growth<=1MiB/min":            {"growth", "", AtMost, Quantity{1 << 20, Size, time.Minute}, ""},
		"rss(a>(b), c)>1":             {"rss", "a>(b), c", Above, Quantity{1, Plain, 0}, ""},
		"allocs>1e6":                  {"allocs", "", Above, Quantity{1e6, Plain, 0}, ""},
		"allocs>3/5s":                 {"allocs", "", Above, Quantity{3, Plain, 5 * time.Second}, ""},
		"rss(/system.slice/x.y)>1KiB": {"rss", "/system.slice/x.y", Above, Quantity{1024, Size, 0}, ""},
	} {
		want.text = strings.TrimSpace(text)
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "swap", "swap>", ">80%", "swap=80%", "swap>80%%", "swap>80%>90%", "pss(redis>2GiB",
		"pss()>1", "pss(a)b>1", "Swap>1", "a..b>1", "a b>1", "growth>1MiB/parsec", "growth>1MiB/", "growth>1/2%", "rss)>1",
		"x>" + strings.Repeat("1", maxText)} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%.40q) = %+v, want an error", text, got)
		}
	}
}

func TestList(t *testing.T) {
	list, err := ParseList("leak>1MB, rss(a,b)>200MiB,growth>1MiB/min")
	if err != nil || len(list) != 3 || list[1].Subject != "a,b" || list[2].String() != "growth>1MiB/min" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := ParseList("leak>1,"); err == nil {
		t.Error("a comma at the end is no error")
	}
}

func TestCompare(t *testing.T) {
	for text, want := range map[string][3]bool{ // for 9, 10 and 11
		"x>10": {false, false, true}, "x>=10": {false, true, true}, "x<10": {true, false, false}, "x<=10": {true, true, false},
	} {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, figure := range []float64{9, 10, 11} {
			if got := c.Compare(figure, c.Value.Number); got != want[i] {
				t.Errorf("%v with %v: %v", c, figure, got)
			}
		}
	}
}

func TestWantedUnits(t *testing.T) {
	rate := Quantity{60, Size, time.Minute}
	if v, err := rate.BytesPerSecond(); err != nil || v != 1 {
		t.Errorf("%v, %v", v, err)
	}
	for _, q := range []Quantity{{1, Share, 0}, {1, Time, 0}, rate} {
		if _, err := q.Bytes(); err == nil {
			t.Errorf("%+v as bytes", q)
		}
		if _, err := q.Count(); err == nil {
			t.Errorf("%+v as a count", q)
		}
	}
	if _, err := (Quantity{1, Size, 0}).Percent(); err == nil {
		t.Error("a size as a percentage")
	}
	if _, err := (Quantity{1, Size, 0}).BytesPerSecond(); err == nil {
		t.Error("a size as a rate")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"swap>80%", "pss(redis)>2GiB", "growth>1MiB/min", "a(b(c)d)<=1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer costtest.Bound(t)()
		list, err := ParseList(s)
		if err != nil {
			return
		}
		for _, c := range list {
			if again, err := Parse(c.String()); err != nil || again != c {
				t.Errorf("%q: %+v, again %+v, %v", s, c, again, err)
			}
		}
	})
}

// What is written as a size is read as that size.
func TestSizeText(t *testing.T) {
	for bytes, want := range map[float64]string{
		0: "0.0B", 1023: "1023.0B", 1024: "1.0KiB", -1536: "-1.5KiB", 266240: "260.0KiB", 3 << 20: "3.0MiB", 1 << 30: "1.0GiB",
		5 << 40: "5.0TiB", 1 << 52: "4096.0TiB",
	} {
		got := SizeText(bytes)
		if got != want {
			t.Errorf("%v: %q, want %q", bytes, got, want)
		}
		if n, err := ParseSize(got); bytes >= 0 && (err != nil || float64(n) != bytes) {
			t.Errorf("%q is read as %d, %v", got, n, err)
		}
	}
}
