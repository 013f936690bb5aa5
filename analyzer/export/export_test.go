package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/memtrace/memtrace/analyzer/report"
)

// fixture reads a Report that the writers' tests keep.
func fixture(t testing.TB, name string) *report.Report {
	t.Helper()
	text, err := os.ReadFile("../render/testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	r, note, err := Read(bytes.NewReader(text), 64<<20)
	if err != nil || note != "" {
		t.Fatal(err, note)
	}
	return r
}

func frames(names ...string) (out []*report.Frame) {
	for i, name := range names {
		out = append(out, &report.Frame{Function: name, File: "/src/" + name + ".c", Line: i + 1, Module: "/bin/shop", BuildID: "ab12", Offset: uint64(0x1000 * (i + 1))})
	}
	return out
}

// shop is a Report with something of every kind, each sum another.
func shop() *report.Report {
	site := report.Site{
		ID: 1, Process: 1, PID: 7, Function: "sell", Stack: frames("sell", "main"), LiveBytes: 3000, LiveCount: 3, AllocBytes: 10_000, AllocCount: 10, FreeCount: 7,
		TemporaryCount: 5, PeakLiveBytes: 4000, ResidentBytes: 2048, UntouchedBytes: 700, SwappedBytes: 252, Faults: 11,
	}
	site.Stack[0].Inlined, site.Stack[1].Offset = true, site.Stack[0].Offset
	other := report.Site{ID: 2, Process: 1, PID: 7, Function: "buy", Stack: frames("buy", "trade", "main"), LiveBytes: 500, LiveCount: 1, AllocBytes: 500, AllocCount: 1, PeakLiveBytes: 500}
	return &report.Report{
		Schema: report.Schema, Final: true, WindowNS: 2e9, Processes: []report.Process{{ID: 1, PID: 7, Comm: "shop", Exe: "/bin/shop"}},
		Sites: []report.Site{site, other},
		Regions: []report.Region{{ID: 1, Process: 1, PID: 7, Function: "store", Stack: frames("store", "main"), Kind: "anon",
			LiveBytes: 1 << 20, LiveCount: 2, MappedBytes: 2 << 20, MappedCount: 4}},
		Leaks: []report.Leak{{Site: 1, Process: 1, Kind: "definite", Bytes: 1000, Count: 1}, {Site: 1, Process: 1, Kind: "indirect", Bytes: 600, Count: 1},
			{Site: 2, Process: 1, Kind: "growing", Bytes: 500, Count: 1}},
	}
}

// sums are what a reader is to see of each kind of shop: bytes, or how many.
var sums = map[Kind]uint64{
	Live: 3500, Peak: 4500, Allocated: 10_500, Freed: 7000, Temporary: 5, Leaked: 1600, Growing: 500,
	Resident: 2048, Untouched: 700, Swapped: 252, Faults: 11, Mapped: 1 << 20,
}

func write(t testing.TB, r *report.Report, opt Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, r, opt); err != nil {
		t.Fatalf("%+v: %v", opt, err)
	}
	return out.Bytes()
}

func TestPprofHasEveryKind(t *testing.T) {
	p, err := profile.ParseData(write(t, shop(), Options{Format: Pprof, Made: time.Unix(1000, 0)}))
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	got := make(map[string]int64)
	for i, st := range p.SampleType {
		types = append(types, st.Type)
		for _, s := range p.Sample {
			got[st.Type] += s.Value[i]
		}
	}
	if want := "alloc_objects alloc_space inuse_objects inuse_space "; !strings.HasPrefix(strings.Join(types, " "), want) || p.DefaultSampleType != "inuse_space" {
		t.Errorf("types %v, default %s", types, p.DefaultSampleType)
	}
	for name, kind := range map[string]Kind{
		"alloc_space": Allocated, "inuse_space": Live, "peak_space": Peak, "freed_space": Freed, "temporary_objects": Temporary, "leaked_space": Leaked,
		"growing_space": Growing, "resident_space": Resident, "untouched_space": Untouched, "swapped_space": Swapped, "page_faults": Faults, "mapped_space": Mapped,
	} {
		if got[name] != int64(sums[kind]) {
			t.Errorf("%s: %d, want %d", name, got[name], sums[kind])
		}
	}
	if got["alloc_objects"] != 11 || got["inuse_objects"] != 4 || got["leaked_objects"] != 2 {
		t.Errorf("counts %v", got)
	}
	first := p.Sample[0]
	if len(first.Location) != 1 || len(first.Location[0].Line) != 2 || first.Location[0].Line[0].Function.Name != "sell" {
		t.Errorf("an inlined frame is to be a line of its caller's location: %v", first.Location)
	}
	if first.Label["pid"][0] != "7" || first.Label["comm"][0] != "shop" || p.TimeNanos != 1000e9 || p.DurationNanos != 2e9 {
		t.Errorf("labels %v, time %d, duration %d", first.Label, p.TimeNanos, p.DurationNanos)
	}
	if m := p.Mapping[0]; m.File != "/bin/shop" || m.BuildID != "ab12" || first.Location[0].Address != m.Start+0x1000 {
		t.Errorf("mapping %+v, address %x", m, first.Location[0].Address)
	}
}

func TestFoldedOfEachKind(t *testing.T) {
	for kind, want := range sums {
		for _, inverted := range []bool{false, true} {
			var got uint64
			for line := range strings.Lines(string(write(t, shop(), Options{Format: Folded, Kind: kind, Inverted: inverted}))) {
				at := strings.LastIndexByte(line, ' ')
				n, err := strconv.ParseUint(strings.TrimSpace(line[at:]), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
			if got != want {
				t.Errorf("%s: %d, want %d", kind, got, want)
			}
		}
	}
	got := string(write(t, shop(), Options{Format: Folded}))
	if want := "shop (7);main;sell 3000\nshop (7);main;trade;buy 500\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSpeedscopeOfEachKind(t *testing.T) {
	var got speedscopeFile
	if err := json.Unmarshal(write(t, shop(), Options{Format: Speedscope, Kind: Peak}), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Profiles) != len(kinds) || got.Profiles[got.Active].Name != "peak of each site" {
		t.Fatalf("%d profiles, active %d", len(got.Profiles), got.Active)
	}
	for i, p := range got.Profiles {
		var sum uint64
		for j, w := range p.Weights {
			sum += w
			for _, f := range p.Samples[j] {
				if f >= len(got.Shared.Frames) {
					t.Errorf("frame %d of %d", f, len(got.Shared.Frames))
				}
			}
		}
		if want := sums[kinds[i].kind]; sum != want || p.End != int64(want) {
			t.Errorf("%s: %d, ends at %d, want %d", p.Name, sum, p.End, want)
		}
	}
}

func TestCSVHasEveryKind(t *testing.T) {
	rows, err := csv.NewReader(bytes.NewReader(write(t, shop(), Options{Format: CSV}))).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatal(err, rows)
	}
	got := make(map[string]uint64)
	for _, row := range rows[1:] {
		for i, name := range rows[0] {
			n, _ := strconv.ParseUint(row[i], 10, 64) // other columns are names
			got[name] += n
		}
	}
	for kind, want := range sums {
		name := string(kind) + "_bytes"
		if kind.counts() {
			name = string(kind) + "_count"
		}
		if got[name] != want {
			t.Errorf("%s: %d, want %d", name, got[name], want)
		}
	}
	if rows[1][3] != "sell" || rows[1][4] != "/src/sell.c:1" || rows[2][len(rows[2])-1] != "buy < trade < main" {
		t.Errorf("%q", rows[1:])
	}
}

func TestValgrindsFormats(t *testing.T) {
	var dhat dhatFile
	if err := json.Unmarshal(write(t, shop(), Options{Format: DHAT, Kind: Allocated}), &dhat); err != nil {
		t.Fatal(err)
	}
	var bytes, blocks uint64
	for _, p := range dhat.Points {
		bytes, blocks = bytes+p.Bytes, blocks+p.Blocks
	}
	if bytes != 10_500 || blocks != 11 || dhat.Version != 2 || dhat.Lifetimes {
		t.Errorf("%d bytes in %d blocks: %+v", bytes, blocks, dhat)
	}
	massif := string(write(t, shop(), Options{Format: Massif, Kind: Peak}))
	for _, want := range []string{"mem_heap_B=4500\n", "heap_tree=peak\nn2: 4500 (heap", "\n n1: 4000 0x1000: sell (/src/sell.c:1)\n  n1: 4000 0x1000: main (/src/main.c:2)\n   n0: 4000 0x0: shop (7)\n"} {
		if !strings.Contains(massif, want) {
			t.Errorf("massif lacks %q:\n%s", want, massif)
		}
	}
}

// svgFrames are the tooltips of one direction of a picture, by their first lines.
func svgFrames(t testing.TB, svg []byte, id string) map[string]string {
	t.Helper()
	var doc struct {
		Groups []struct {
			ID     string `xml:"id,attr"`
			Frames []struct {
				Title string `xml:"title"`
			} `xml:"g"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal(svg, &doc); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, g := range doc.Groups {
		for _, f := range g.Frames {
			if name, rest, _ := strings.Cut(f.Title, "\n"); g.ID == id {
				out[name] = rest
			}
		}
	}
	return out
}

func TestFlamegraphTellsFigures(t *testing.T) {
	svg := write(t, shop(), Options{Format: Flamegraph, Version: "1.0"})
	down := svgFrames(t, svg, "callees")
	for name, want := range map[string]string{
		"all": "3.42 KiB in 4 blocks, 100.0 %", "main": "3.42 KiB in 4 blocks, 100.0 %\n/src/main.c:2\n/bin/shop",
		"sell": "2.93 KiB in 3 blocks, 85.7 %\n/src/sell.c:1\n/bin/shop", "buy": "500 B in 1 block, 14.3 %\n/src/buy.c:1\n/bin/shop",
	} {
		if down[name] != want {
			t.Errorf("%s: %q, want %q", name, down[name], want)
		}
	}
	if up := svgFrames(t, svg, "callers"); up["sell"] == "" || up["shop (7)"] == "" {
		t.Errorf("inverted: %q", up)
	}
	if !strings.Contains(string(svg), ">shop (7): live, 3.42 KiB in 4 blocks</text>") || !strings.Contains(string(svg), ">memtrace 1.0 · traced for 2.0 s</text>") {
		t.Errorf("no title in\n%s", svg)
	}
}

func TestDifferenceHasBothSigns(t *testing.T) {
	before, after := shop(), shop()
	after.Sites[0].LiveBytes += 900
	after.Sites[1].LiveBytes, after.Processes[0].PID, after.Sites[1].PID = 0, 8, 8
	after.Sites = append(after.Sites, report.Site{ID: 3, Process: 1, PID: 7, Stack: frames("fresh", "main"), LiveBytes: 50, LiveCount: 1})
	var out bytes.Buffer
	if err := WriteDiff(&out, before, after, Options{Format: Folded}); err != nil {
		t.Fatal(err)
	}
	if want := "shop;main;fresh 0 50\nshop;main;sell 3000 3900\nshop;main;trade;buy 500 0\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
	out.Reset()
	if err := WriteDiff(&out, before, after, Options{Format: Flamegraph}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"main": "grew by 950 B, shrank by 500 B", "buy": "grew by 0 B, shrank by 500 B", "fresh": "grew by 50 B, shrank by 0 B"} {
		if got, _, _ := strings.Cut(svgFrames(t, out.Bytes(), "callees")[name], "\n/"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if err := WriteDiff(io.Discard, before, after, Options{Format: Pprof}); err == nil {
		t.Error("pprof has no differences")
	}
}

// TestPageHoldsEveryKind: the data that the page's script draws.
func TestPageHoldsEveryKind(t *testing.T) {
	page := string(write(t, shop(), Options{Format: HTML, Kind: Leaked}))
	_, text, _ := strings.Cut(page, `<script type="application/json" id="data">`)
	text, _, _ = strings.Cut(text, "</script>")
	var d pageData
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	for i, k := range d.Kinds {
		var sum uint64
		for _, s := range d.Stacks {
			if k.Count {
				sum += s.Counts[i]
			} else {
				sum += s.Bytes[i]
			}
		}
		if want := sums[Kind(k.Kind)]; sum != want {
			t.Errorf("%s: %d, want %d", k.Kind, sum, want)
		}
	}
	if len(d.Kinds) != len(kinds) || d.Kind != "leaked" {
		t.Errorf("%d kinds, first %q", len(d.Kinds), d.Kind)
	}
}

// attack is a name that tries to become markup, a formula, a column and a command of the terminal.
const attack = "=cmd|'/c calc'!A0;</title></script><img src=x onerror=alert(1)>]]>\x1b[2J\r\n\x00\u202e\xff\" style=\"x"

func hostile(t testing.TB) []*report.Report {
	r := shop()
	r.Processes[0].Comm, r.Processes[0].Exe = attack, attack
	for _, s := range r.Sites {
		for _, f := range s.Stack {
			f.Function, f.File, f.Module, f.BuildID, f.Mangled = attack+f.Function, attack, attack, attack, attack
		}
	}
	r.Sites[0].LiveBytes, r.Sites[1].LiveBytes = 1<<64-1, 1<<64-1
	r.Sites = append(r.Sites, report.Site{ID: 9, PID: -1, LiveBytes: 1, Group: &report.BlockGroup{Type: attack}}, report.Site{ID: 9, LiveBytes: 1, Truncated: true})
	return []*report.Report{r, fixture(t, "hostile.compact"), fixture(t, "empty"), fixture(t, "untraced"), fixture(t, "unprobed"), fixture(t, "lossy.compact")}
}

func TestHostileNamesStayText(t *testing.T) {
	for i, r := range hostile(t) {
		for _, format := range Formats() {
			out := write(t, r, Options{Format: Format(format), Version: attack})
			if format == string(Pprof) {
				if _, err := profile.ParseData(out); err != nil {
					t.Errorf("report %d: %v", i, err)
				}
			}
			if Format(format).Binary() {
				continue
			}
			if !utf8.Valid(out) {
				t.Errorf("report %d, %s: is not UTF-8", i, format)
			}
			for _, c := range string(out) {
				if c != '\n' && (unicode.IsControl(c) || c == '\u202e') {
					t.Fatalf("report %d, %s: has %q", i, format, c)
				}
			}
			if text := string(out); strings.Contains(text, "<img") && (format == "html" || format == "flamegraph") || strings.Count(text, "</script>") > 2 && format == "html" {
				t.Errorf("report %d, %s: a name became markup", i, format)
			}
			if format == string(Flamegraph) {
				svgFrames(t, out, "callees")
			}
			if format == string(CSV) && (bytes.Contains(out, []byte(",=cmd")) || bytes.Contains(out, []byte("\"=cmd"))) {
				t.Errorf("report %d: a name became a formula", i)
			}
		}
	}
}

func TestOptionsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		says string
	}{
		{Options{Format: "pdf"}, `format "pdf" is none of pprof, folded`},
		{Options{Format: HTML, Kind: "big"}, `kind "big" is none of live, peak`},
		{Options{Format: CSV, Kind: Live}, "csv has all kinds"},
		{Options{Format: Parquet, Kind: Live}, "parquet has all kinds"},
		{Options{Format: Pprof, Inverted: true}, "inverted is for flamegraph, html and folded"},
		{Options{Format: Massif, Kind: Faults}, "massif shows bytes: faults is a count"},
	} {
		if err := Write(io.Discard, shop(), c.opt); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.opt, err, c.says)
		}
	}
}

// TestLongNamesAreCut: names are bounded wherever they stand.
func TestLongNamesAreCut(t *testing.T) {
	r := shop()
	r.Sites[0].Stack[0].Function = strings.Repeat("é", 1<<20)
	for _, format := range Formats() {
		if out := write(t, r, Options{Format: Format(format)}); len(out) > 200<<10 {
			t.Errorf("%s has %d bytes", format, len(out))
		}
	}
}

// TestDeepStacksAreCut: at their outer end, and the figure stays.
func TestDeepStacksAreCut(t *testing.T) {
	r := shop()
	for i := range 10_000 {
		r.Sites[0].Stack = append(r.Sites[0].Stack, &report.Frame{Function: "f" + strconv.Itoa(i)})
	}
	for _, format := range Formats() {
		if out := write(t, r, Options{Format: Format(format)}); len(out) > 2<<20 {
			t.Errorf("%s has %d bytes", format, len(out))
		}
	}
	text := string(write(t, r, Options{Format: Folded}))
	if !strings.HasPrefix(text, "shop (7);[stack cut];f2045;") || !strings.Contains(text, ";sell 3000\n") || strings.Count(text, ";") > 2100 {
		t.Errorf("%.100s…", text)
	}
}

// large is a Report with many sites.
func large(sites int) *report.Report {
	r := shop()
	r.Sites = nil
	for i := range sites {
		var names []string
		for depth, n := 0, i; depth < 16; depth, n = depth+1, n/3 {
			names = append(names, fmt.Sprintf("level_%d_%d", depth, n%7))
		}
		r.Sites = append(r.Sites, report.Site{ID: i + 1, Process: 1, PID: 7, Function: names[0], Stack: frames(names...), LiveBytes: uint64(1000 + i), LiveCount: 1, AllocBytes: uint64(2000 + i), AllocCount: 2})
	}
	return r
}

func BenchmarkExport(b *testing.B) {
	r := large(10_000)
	for _, format := range Formats() {
		b.Run(format, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var out bytes.Buffer
				if err := Write(&out, r, Options{Format: Format(format)}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(out.Len()), "file-bytes")
			}
		})
	}
}

var errRead = errors.New("the disk is gone")
