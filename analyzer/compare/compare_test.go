package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

var live = Figure{Kind: "live", Title: "live", Thing: "block", Bytes: true, Count: true}

// stack is of a program at a path.
func stack(line int, names ...string) (out []*report.Frame) {
	for _, name := range names {
		file, function, _ := strings.Cut(name, ":")
		out = append(out, &report.Frame{Function: function, File: "/src/" + file, Line: line, Module: "/bin/shop", Offset: uint64(line)})
	}
	return out
}

func site(line int, names ...string) *report.Site {
	s := &report.Site{Stack: stack(line, names...)}
	s.Function = s.Stack[0].Function
	return s
}

func entry(process int, s *report.Site, bytes, count uint64) Entry {
	return Entry{Site: s, Process: process, Bytes: Measured{Value: bytes}, Count: Measured{Value: count}}
}

func side(name string, processes []report.Process, entries ...Entry) Side {
	return Side{Name: name, Report: &report.Report{Processes: processes}, Entries: entries}
}

// builds are two builds of a shop, with other lines, process IDs and addresses.
func builds() (before, after Side) {
	before = side("old.json", []report.Process{{ID: 1, Comm: "shop"}, {ID: 2, Comm: "till"}},
		entry(1, site(10, "sell.c:sell", "main.c:main"), 1000, 10),
		entry(2, site(10, "sell.c:sell", "main.c:main"), 500, 5), // the same site in another process
		entry(1, site(20, "sell.c:sell", "trade.c:trade", "main.c:main"), 4000, 4),
		entry(1, site(30, "buy.c:buy", "main.c:main"), 300, 3),
		entry(1, site(40, "old.c:old", "main.c:main"), 70, 7),
		entry(1, site(50, "none.c:none", "main.c:main"), 0, 0))
	after = side("new.json", []report.Process{{ID: 7, Comm: "till"}, {ID: 8, Comm: "till"}, {ID: 9, Comm: "shop"}},
		entry(9, site(11, "sell.c:sell", "main.c:main"), 1500, 15),
		entry(7, site(11, "sell.c:sell", "main.c:main"), 100, 1),
		entry(9, site(21, "sell.c:sell", "trade.c:trade", "main.c:main"), 2500, 3),
		entry(9, site(31, "buy.c:buy", "main.c:main"), 300, 3),
		entry(9, site(60, "new.c:fresh", "main.c:main"), 9, 1),
		entry(9, site(51, "none.c:none", "main.c:main"), 0, 0))
	return before, after
}

type want struct {
	name          string
	state         State
	before, after uint64
	grown, shrunk uint64
	count         int64
	sites         [2]int
}

func TestCompare(t *testing.T) {
	for by, wants := range map[string][]want{
		"site": {
			{"sell", Stayed, 1500, 1600, 100, 0, 1, [2]int{2, 2}},
			{"fresh", New, 0, 9, 9, 0, 1, [2]int{0, 1}},
			{"buy", Stayed, 300, 300, 0, 0, 0, [2]int{1, 1}},
			{"old", Gone, 70, 0, 0, 70, -7, [2]int{1, 0}},
			{"sell", Stayed, 4000, 2500, 0, 1500, -1, [2]int{1, 1}},
		},
		"function": { // sell grew by 100 in one place and shrank by 1500 in another
			{"fresh", New, 0, 9, 9, 0, 1, [2]int{0, 1}},
			{"buy", Stayed, 300, 300, 0, 0, 0, [2]int{1, 1}},
			{"old", Gone, 70, 0, 0, 70, -7, [2]int{1, 0}},
			{"sell", Stayed, 5500, 4100, 100, 1500, 0, [2]int{3, 3}},
		},
		"file": {
			{"/src/new.c", New, 0, 9, 9, 0, 1, [2]int{0, 1}},
			{"/src/buy.c", Stayed, 300, 300, 0, 0, 0, [2]int{1, 1}},
			{"/src/old.c", Gone, 70, 0, 0, 70, -7, [2]int{1, 0}},
			{"/src/sell.c", Stayed, 5500, 4100, 100, 1500, 0, [2]int{3, 3}},
		},
		"module": {{"/bin/shop", Stayed, 5870, 4409, 109, 1570, -6, [2]int{5, 5}}},
		"process": { // the site that both have grew in the shop, and shrank in the till
			{"till", Stayed, 500, 100, 0, 400, -4, [2]int{1, 1}},
			{"shop", Stayed, 5370, 4309, 509, 1570, -2, [2]int{4, 4}},
		},
	} {
		t.Run(by, func(t *testing.T) {
			before, after := builds()
			d, err := Compare(live, before, after, by)
			if err != nil {
				t.Fatal(err)
			}
			checkRows(t, d, wants)
			if b, a := d.Total.Bytes.Before, d.Total.Bytes.After; b != 5870 || a != 4409 || d.Total.Bytes.Change() != -1461 {
				t.Errorf("total from %d to %d, changed by %d", b, a, d.Total.Bytes.Change())
			}
		})
	}
}

func checkRows(t *testing.T, d *Diff, wants []want) {
	t.Helper()
	if len(d.Rows) != len(wants) {
		t.Fatalf("%d rows, want %d: %+v", len(d.Rows), len(wants), d.Rows)
	}
	for i, w := range wants {
		r := &d.Rows[i]
		name := r.Key
		if r.Site != nil {
			name = r.Site.Function
		}
		if got := (want{name, r.State, r.Bytes.Before, r.Bytes.After, r.Bytes.Grown, r.Bytes.Shrunk, r.Count.Change(), r.Sites}); got != w {
			t.Errorf("row %d is %+v, want %+v", i, got, w)
		}
	}
}

// Another build of the program may be in another folder; the same name in two folders is two files
// where both Reports have both.
func TestModulesInOtherFolders(t *testing.T) {
	in := func(module string, bytes uint64) Entry {
		s := site(1, "a.c:a")
		s.Stack[0].Module = module
		return entry(1, s, bytes, 1)
	}
	before := side("a", nil, in("/builds/1/shop", 100), in("/usr/lib/libz.so", 10), in("/opt/libz.so", 20))
	after := side("b", nil, in("/builds/2/shop", 150), in("/usr/lib/libz.so", 11), in("/opt/libz.so", 18))
	d, err := Compare(live, before, after, "module")
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, d, []want{
		{"shop", Stayed, 100, 150, 50, 0, 0, [2]int{1, 1}},
		{"/usr/lib/libz.so", Stayed, 10, 11, 1, 0, 0, [2]int{1, 1}},
		{"/opt/libz.so", Stayed, 20, 18, 0, 2, 0, [2]int{1, 1}},
	})
}

func TestTally(t *testing.T) {
	before, after := builds()
	d, err := Compare(live, before, after, "site")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Tally{Before: 4, After: 4, New: 1, Gone: 1, Grown: 2, Shrunk: 2, Unchanged: 1}); d.Sites != want {
		t.Errorf("%+v, want %+v", d.Sites, want)
	}
	byProcess, _ := Compare(live, before, after, "process")
	if got := byProcess.Rows[0].Processes; got != [2]int{1, 2} {
		t.Errorf("%v processes called till, want 1 and 2", got)
	}
	changed, same := d.Changed()
	if len(changed) != 4 || same.Rows != 1 || same.Bytes.After != 300 {
		t.Errorf("%d rows changed, %+v did not", len(changed), same)
	}
	shown, rest := d.First(changed, 2) // those of 1500 and of 100, in their order
	if len(shown) != 2 || shown[0].Bytes.Grown != 100 || shown[1].Bytes.Shrunk != 1500 {
		t.Errorf("the first rows are %+v", shown)
	}
	if rest.Rows != 2 || rest.Bytes.Grown != 9 || rest.Bytes.Shrunk != 70 || rest.Count.Change() != -6 {
		t.Errorf("the others are %+v", rest)
	}
	if all, none := d.First(changed, 0); len(all) != 4 || none.Rows != 0 {
		t.Errorf("0 shows %d rows and leaves out %d", len(all), none.Rows)
	}
}

// A block more of fewer bytes each, or a site of blocks without bytes, is a change.
func TestCountAloneChanges(t *testing.T) {
	s := site(1, "a.c:a")
	d, err := Compare(live, side("a", nil, entry(1, s, 100, 1)), side("b", nil, entry(1, s, 100, 2)), "site")
	if err != nil {
		t.Fatal(err)
	}
	if changed, _ := d.Changed(); len(changed) != 1 || d.Sites.Grown != 1 || d.Sites.Unchanged != 0 {
		t.Errorf("%d rows changed; %+v", len(changed), d.Sites)
	}
}

// What a Report leaves out may be what the other lists: neither new nor gone.
func TestUnlistedSites(t *testing.T) {
	a, b := site(1, "a.c:a"), site(1, "b.c:b")
	before, after := side("x", nil, entry(1, a, 100, 1)), side("y", nil, entry(1, b, 60, 1))
	before.Entries = append(before.Entries, Entry{Process: 1, Bytes: Measured{Value: 50}, Count: Measured{Value: 2}})
	before.Omitted = 3
	d, err := Compare(live, before, after, "site")
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, d, []want{
		{"b", UnlistedBefore, 0, 60, 60, 0, 1, [2]int{0, 1}},
		{Unlisted, Stayed, 50, 0, 0, 50, -2, [2]int{}},
		{"a", Gone, 100, 0, 0, 100, -1, [2]int{1, 0}},
	})
	if r := d.Rows; !r[0].Unsure || !r[1].Unsure || r[2].Unsure || !d.Unsure {
		t.Error("not the rows that the omitted sites touch are unsure")
	}
	if d.Sites.New != 0 || d.Sites.UnlistedBefore != 1 || d.Sites.Gone != 1 {
		t.Errorf("%+v", d.Sites)
	}
	if len(d.Cautions) != 1 || !strings.Contains(d.Cautions[0], "before: it leaves out 3 sites") || !strings.Contains(d.Cautions[0], Unlisted) {
		t.Errorf("cautions %q", d.Cautions)
	}
}

func TestErrorsAddUpAsSquares(t *testing.T) {
	e := func(s *report.Site, value, se uint64) Entry { return Entry{Site: s, Bytes: Measured{value, se}} }
	a, b := site(1, "a.c:a"), site(1, "b.c:b")
	d, err := Compare(live, side("x", nil, e(a, 1000, 30), e(b, 10, 0)), side("y", nil, e(a, 2000, 40), e(b, 10, 120)), "module")
	if err != nil {
		t.Fatal(err)
	}
	of := &d.Rows[0].Bytes
	if of.BeforeSE != 30 || of.AfterSE != 126 || of.ChangeSE() != 130 || !d.HasErrors() { // √(40²+120²) = 126.5; √(30²+126²) = 129.5
		t.Errorf("errors %d and %d, of the change %d", of.BeforeSE, of.AfterSE, of.ChangeSE())
	}
}

// The changes of the rows add up to that of the total, in any grouping and however few are shown.
func TestRowsAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		sides := [2]Side{}
		var totals [2]uint64
		for i := range sides {
			s := side("x", []report.Process{{ID: 1, Comm: "p"}, {ID: 2, Comm: "q"}, {ID: 3, Comm: "p"}})
			for range random.IntN(60) {
				names := []string{"a.c:a", "b.c:b", "c.c:c", "a.c:d"}[:1+random.IntN(4)]
				random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
				e := entry(1+random.IntN(4), site(random.IntN(9), names...), random.Uint64N(1<<40), random.Uint64N(1000))
				if random.IntN(10) == 0 {
					e.Site, s.Omitted = nil, s.Omitted+1
				}
				s.Entries = append(s.Entries, e)
				totals[i] += e.Bytes.Value
			}
			sides[i] = s
		}
		for _, by := range Groupings() {
			d, err := Compare(live, sides[0], sides[1], by)
			if err != nil {
				t.Fatal(err)
			}
			shown, rest := d.First(d.Rows, random.IntN(5))
			change, grown, shrunk := rest.Bytes.Change(), rest.Bytes.Grown, rest.Bytes.Shrunk
			for i := range shown {
				of := &shown[i].Bytes
				if int64(of.Grown)-int64(of.Shrunk) != of.Change() {
					t.Fatalf("a row grew by %d, shrank by %d, and changed by %d", of.Grown, of.Shrunk, of.Change())
				}
				change, grown, shrunk = change+of.Change(), grown+of.Grown, shrunk+of.Shrunk
			}
			if all := &d.Total.Bytes; change != int64(totals[1])-int64(totals[0]) || all.Change() != change || all.Grown != grown || all.Shrunk != shrunk ||
				all.Before != totals[0] || all.After != totals[1] {
				t.Fatalf("by %s: rows changed by %d (%d grown, %d shrunk), the total is %+v, want %v", by, change, grown, shrunk, all, totals)
			}
			if !slices.IsSortedFunc(d.Rows, func(a, b Row) int { return int(min(max(b.Bytes.Change()-a.Bytes.Change(), -1), 1)) }) {
				t.Fatalf("by %s: rows are out of order", by)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	s := site(1, "a.c:a")
	good := side("good.json", nil, entry(1, s, 1, 1))
	if _, err := Compare(live, good, good, "thread"); err == nil || !strings.Contains(err.Error(), "none of site, function") {
		t.Errorf("by thread: %v", err)
	}
	for _, e := range []Entry{entry(1, s, math.MaxUint64, 0), entry(1, s, 0, math.MaxInt64+1)} {
		bad := side("bad.json", nil, entry(1, s, 1, 1), e)
		if _, err := Compare(live, good, bad, "site"); err == nil || !strings.Contains(err.Error(), "bad.json add up to more than 2^63") {
			t.Errorf("too large: %v", err)
		}
	}
	most := side("most.json", nil, entry(1, s, math.MaxInt64, math.MaxInt64))
	if d, err := Compare(live, good, most, "site"); err != nil || d.Total.Bytes.Change() != math.MaxInt64-1 {
		t.Errorf("the largest figure: %v", err)
	}
}

// A saved Report may name processes that it does not have, and none.
func TestUnknownProcess(t *testing.T) {
	d, err := Compare(live, side("a", nil, entry(5, site(1, "a.c:a"), 1, 1)), side("b", []report.Process{{ID: 5}}, entry(5, site(1, "a.c:a"), 3, 1)), "process")
	if err != nil || len(d.Rows) != 1 || d.Rows[0].Key != "[process]" || d.Rows[0].Bytes.Change() != 2 {
		t.Errorf("%v: %+v", err, d)
	}
}
