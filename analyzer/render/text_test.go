package render

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/memtrace/memtrace/analyzer/report"
)

func text(t *testing.T, r *report.Report, opt Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, r, opt); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestLinesFitTheWidth(t *testing.T) {
	r := fixtures()
	wide := serviceReport()
	wide.Processes[0].Comm = "漢字プロセス名"
	wide.Sites[0].Function = strings.Repeat("漢字", 60)
	r["wide"] = wide
	for name, r := range r {
		for width := 1; width <= 200; width++ {
			opt := Options{Width: width, Frames: -1}
			for _, line := range strings.Split(text(t, r, opt), "\n") {
				if columns(line) > width {
					t.Fatalf("%s at width %d: %d columns: %q", name, width, columns(line), line)
				}
			}
		}
	}
}

func TestNoWidthCutsNothing(t *testing.T) {
	if out := text(t, lossyReport(), Options{Frames: -1}); !strings.Contains(out, longName) || strings.Contains(out, "…") {
		t.Errorf("a name was cut:\n%s", out)
	}
}

func TestHostileNamesAreQuoted(t *testing.T) {
	for width := 0; width <= 200; width += 20 {
		for _, r := range text(t, hostileReport(), Options{Width: width, Frames: -1}) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("width %d: unprintable %U in text output", width, r)
			}
		}
	}
	if out := text(t, hostileReport(), Options{}); !strings.Contains(out, `a\x1b[2J`) {
		t.Errorf("the escape is not shown as \\x1b:\n%s", out)
	}
}

func TestColorOnlyWhenAsked(t *testing.T) {
	for name, r := range fixtures() {
		plain := text(t, r, Options{Width: 80, Frames: 4})
		colored := text(t, r, Options{Width: 80, Frames: 4, Color: true})
		if strings.Contains(plain, "\x1b") {
			t.Errorf("%s: colour without Color", name)
		}
		if stripSGR(colored) != plain {
			t.Errorf("%s: colour changes the text", name)
		}
	}
}

// stripSGR removes "\x1b[…m".
func stripSGR(s string) string {
	var out strings.Builder
	for {
		start := strings.Index(s, "\x1b[")
		if start < 0 {
			return out.String() + s
		}
		out.WriteString(s[:start])
		s = s[start+strings.IndexByte(s[start:], 'm')+1:]
	}
}

func TestLossesAreAlwaysStated(t *testing.T) {
	for name, r := range fixtures() {
		if out := text(t, r, Options{Width: 80}); !strings.Contains(out, "\nLosses: ") {
			t.Errorf("%s: no losses line", name)
		}
	}
	out := text(t, lossyReport(), Options{})
	for _, want := range []string{"1,234 events lost", "1,000: the ring buffer was full", "1: the kernel skipped the probe", "2: malloc returned another block",
		"44 events came without their stacks", "5 allocator calls were not seen to return",
		"whose allocation was not seen", "no BTF"} {
		if !strings.Contains(out, want) {
			t.Errorf("losses lack %q:\n%s", want, out)
		}
	}
}

func TestFramesLimitStacks(t *testing.T) {
	if out := text(t, serviceReport(), Options{Frames: 0}); strings.Contains(out, " allocated by") {
		t.Error("stacks shown with Frames 0")
	}
	out := text(t, serviceReport(), Options{Frames: 2, Stacks: 1})
	if !strings.Contains(out, "list_append (inlined)") || !strings.Contains(out, "and 2 more frames") || strings.Count(out, " allocated by") != 1 {
		t.Errorf("got:\n%s", out)
	}
}

// TestCheckIsDescribed: a Report says when a process was checked for leaks, for
// how long it stood still, and what could not be read.
func TestCheckIsDescribed(t *testing.T) {
	r := serviceReport()
	if out := text(t, r, Options{}); strings.Contains(out, "Check") {
		t.Errorf("a check that was not made is described:\n%s", out)
	}
	r.Processes[0].LeakCheck = &report.LeakCheck{When: "running", Scans: 2, RootBytes: 4096, ReadBytes: 1 << 20, UnreadBytes: 8192, LongestHoldNS: 85_000,
		Reachable: report.LeakSum{Count: 1030, Bytes: 3 << 20}, ReachableBy: report.ReachableBy{Globals: report.LeakSum{Count: 1000, Bytes: 2 << 20},
			Allocator: report.LeakSum{Count: 30, Bytes: 1 << 20}}}
	want := "  Check checked while it ran, by 2 scans; 4.00 KiB of roots, 1.00 MiB read in all; 8.00 KiB could not be read\n" +
		"        1,030 blocks of 3.00 MiB are reachable, 1,000 (2.00 MiB) from globals, 30 (1.00 MiB) only from the allocator's memory\n" +
		"        never stopped; its memory map was held for 85.0 µs at a time at most\n"
	if out := text(t, r, Options{}); !strings.Contains(out, want) {
		t.Errorf("want %q in:\n%s", want, out)
	}
	r.Processes[0].LeakCheck = &report.LeakCheck{When: "before_exit", Scans: 1, Registers: true, PauseNS: 12 * ms, LongestHoldNS: 1000, Reachable: report.LeakSum{Count: 1, Bytes: 8}}
	want = "before exit handlers; 0 B of roots and the registers, 0 B read in all\n        1 block of 8 B is reachable\n        stood still for 12.0 ms; "
	if out := text(t, r, Options{}); !strings.Contains(out, want) {
		t.Errorf("want %q in:\n%s", want, out)
	}
	r.Leaks = nil
	want = "Leaks: none; 1 block of 8 B is reachable\n"
	if out := text(t, r, Options{}); !strings.Contains(out, want) {
		t.Errorf("want %q in:\n%s", want, out)
	}
	r.Processes = append(r.Processes, report.Process{ID: 2, PID: 7})
	want = "Leaks: none in 1 of 2 processes, which were checked; 1 block of 8 B is reachable\n"
	if out := text(t, r, Options{}); !strings.Contains(out, want) {
		t.Errorf("want %q in:\n%s", want, out)
	}
}

// A table of what sites hold counts those that hold nothing in a line, and has no stacks of them; where nothing holds
// anything, as at the end of a program that freed it all, it has them.
func TestSitesThatHoldNothing(t *testing.T) {
	r := &report.Report{Processes: []report.Process{{PID: 1, Heap: report.Heap{LiveBytes: 2048, LiveCount: 3}}}, Sites: []report.Site{
		{ID: 1, LiveBytes: 2048, LiveCount: 2, AllocCount: 3, Function: "keeps"},
		{ID: 2, LiveCount: 1, AllocCount: 1, Function: "keeps_empty"}, // a block of 0 bytes is held
		{ID: 3, AllocCount: 90, Function: "churns"},
		{ID: 4, AllocCount: 9, Function: "churns_too"},
	}}
	const line = "and 2 sites that hold nothing (--sort alloc shows all)\n"
	out := text(t, r, Options{Frames: -1, Held: true})
	if strings.Contains(out, "churns") || strings.Contains(out, "#3") || !strings.Contains(out, "keeps_empty") || !strings.Contains(out, line) {
		t.Errorf("of what is held:\n%s", out)
	}
	if out := text(t, r, Options{Top: 1, Held: true}); !strings.Contains(out, "and 3 more sites holding 0 B\n") {
		t.Errorf("the first site, which holds all bytes and not all blocks:\n%s", out)
	}
	if out := text(t, r, Options{Frames: -1}); !strings.Contains(out, "churns_too") || strings.Contains(out, "hold nothing") {
		t.Errorf("of all that was allocated:\n%s", out)
	}
	r.Sites, r.Processes[0].Heap.LiveBytes = r.Sites[2:], 0
	r.Processes[0].Heap.LiveCount = 0
	if out := text(t, r, Options{Held: true}); !strings.Contains(out, "churns_too") || strings.Contains(out, "hold nothing") {
		t.Errorf("where nothing is held:\n%s", out)
	}
}
