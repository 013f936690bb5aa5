package matrix

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/procfs"
)

// process builds a process that uses components by their place: rss, pss, uss.
func process(pid int, start uint64, uses ...snapshot.Use) snapshot.Process {
	p := snapshot.Process{ID: snapshot.ID{PID: pid, StartTime: start}, Comm: "p", Uses: uses}
	for _, u := range uses {
		p.Usage.RSS += u.RSS
		p.Usage.PSS += u.PSS
		p.Usage.USS += u.USS
		p.Usage.Swap += u.Swap
	}
	return p
}

func use(component int, rss, pss, uss uint64) snapshot.Use {
	return snapshot.Use{Component: component, Mappings: 1, RSS: rss, PSS: pss, USS: uss}
}

var components = []snapshot.Component{
	{Kind: procfs.KindAnon, Name: "[anon]"},
	{Kind: procfs.KindFile, Name: "/lib/libc.so.6", Device: 1, Inode: 10},
	{Kind: procfs.KindFile, Name: "/box/libc.so.6", Device: 2, Inode: 10},
	{Kind: procfs.KindShmem, Name: "/dev/zero (deleted)", Inode: 5},
	{Kind: procfs.KindShmem, Name: "/dev/zero (deleted)", Inode: 6},
}

func TestTable(t *testing.T) {
	s := &snapshot.Snapshot{Components: components, Processes: []snapshot.Process{
		process(1, 1, use(0, 10, 10, 10), use(1, 100, 50, 0)),
		process(2, 1, use(0, 30, 30, 30), use(1, 100, 50, 0), use(3, 500, 500, 5)),
		{ID: snapshot.ID{PID: 3, StartTime: 1}, Access: snapshot.NoPermission, Resident: 7000},
		process(4, 1, use(2, 8, 8, 8)),
		{ID: snapshot.ID{PID: 5, StartTime: 1}, Access: snapshot.NoPermission, Resident: 9000},
	}}
	table := New(s)
	var pids []int
	for _, p := range table.Rows {
		pids = append(pids, p.PID)
	}
	if want := []int{2, 1, 4, 5, 3}; !slices.Equal(pids, want) || table.Unread != 2 {
		t.Errorf("rows %v with %d unread, want %v with 2", pids, table.Unread, want)
	}
	var shorts []string
	for _, c := range table.Columns {
		shorts = append(shorts, c.Short)
	}
	// by RSS: zero 500, libc 200, anon 40, the other libc 8; that which nobody maps is left out
	if got := strings.Join(shorts, " "); got != "zero libc anon libc~2" {
		t.Errorf("columns %s", got)
	}
	if c := table.Columns[1]; c.Processes != 2 || c.Total.RSS != 200 || c.Total.PSS != 100 {
		t.Errorf("libc: %+v", c)
	}
	if u := table.Cell(table.Rows[0], &table.Columns[0]); u == nil || u.RSS != 500 {
		t.Errorf("cell: %+v", u)
	}
	if u := table.Cell(table.Rows[1], &table.Columns[0]); u != nil {
		t.Errorf("cell that is not mapped: %+v", u)
	}
	if sum := table.Total(); sum.RSS != 748 || sum.USS != 53 {
		t.Errorf("total: %+v", sum)
	}
}

func TestShortNames(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/lib/libc.so.6": "libc", "/usr/bin/postgres": "postgres", "/opt/a-very-long-name": "a-very-l",
		"/memfd:jit (deleted)": "jit", "/x/\x1b[2J": "2J", "/x/äö": "file", "/": "file", "/tmp/.so": ".so",
	} {
		if got := shortName(procfs.KindFile, name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"[heap]": "heap", "[anon:glibc: malloc arena]": "glibcmal", "[anon]": "anon"} {
		if got := shortName(procfs.KindAnon, name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	columns := make([]Column, 1200)
	for i := range columns {
		columns[i].Component = &snapshot.Component{Kind: procfs.KindFile, Name: "/same/name/too"}
		if i%3 == 0 {
			columns[i].Component = &snapshot.Component{Kind: procfs.KindFile, Name: "/x/too~1"}
		}
	}
	nameColumns(columns)
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Short] || len(c.Short) > shortLength {
			t.Fatalf("%q is there twice, or too long", c.Short)
		}
		seen[c.Short] = true
	}
}

func shot(boot string, processes ...snapshot.Process) *snapshot.Snapshot {
	return &snapshot.Snapshot{Machine: snapshot.Machine{BootID: boot}, Components: components, Processes: processes}
}

func TestDiff(t *testing.T) {
	unread := snapshot.Process{ID: snapshot.ID{PID: 9, StartTime: 1}, Access: snapshot.NoPermission}
	a := shot("boot", process(1, 1, use(0, 10, 10, 10), use(1, 100, 50, 0)), process(2, 1, use(0, 40, 40, 40)),
		process(5, 1, use(3, 7, 7, 7)), process(6, 1, use(0, 3, 3, 3)), process(9, 1, use(0, 1000, 1000, 1000)))
	b := shot("boot", process(1, 1, use(0, 15, 15, 15), use(1, 100, 40, 0)), process(2, 2, use(0, 90, 90, 90)),
		process(5, 1, use(4, 7, 7, 7)), process(6, 1, use(0, 3, 3, 3)), unread)
	d := Compare(a, b, PSS)
	want := []struct {
		pid    int
		state  State
		growth int64
		parts  string
	}{
		{2, Started, 90, "[anon]+90"}, // the PID was given to another process
		{5, Stayed, 0, "/dev/zero (deleted)+7 /dev/zero (deleted)-7"},
		{6, Stayed, 0, ""},
		{9, Unknown, 0, ""},
		{1, Stayed, -5, "[anon]+5 /lib/libc.so.6-10"},
		{2, Ended, -40, "[anon]-40"},
	}
	if len(d.Processes) != len(want) || d.Unknown != 1 || !d.SameBoot {
		t.Fatalf("%+v", d)
	}
	for i, w := range want {
		c := &d.Processes[i]
		var parts []string
		for _, part := range c.Components {
			sign := "+"
			if part.PSS.Growth() < 0 {
				sign = ""
			}
			parts = append(parts, part.Name+sign+itoa(part.PSS.Growth()))
		}
		if c.PID != w.pid || c.State != w.state || c.PSS.Growth() != w.growth || strings.Join(parts, " ") != w.parts {
			t.Errorf("change %d: %d %s %d %v, want %+v", i, c.PID, c.State, c.PSS.Growth(), parts, w)
		}
	}
	if got := d.Total.PSS; got != (Delta{110 + 0, 155}) {
		t.Errorf("total %+v", got)
	}
	if c := d.Components[0]; c.Name != "[anon]" || c.PSS != (Delta{53, 108}) {
		t.Errorf("largest component: %+v", c)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// TestDiffOfTwoBoots: the same PID and start time on two boots are two processes.
func TestDiffOfTwoBoots(t *testing.T) {
	d := Compare(shot("one", process(1, 1, use(3, 10, 10, 10))), shot("two", process(1, 1, use(4, 30, 30, 30))), RSS)
	if d.SameBoot || len(d.Processes) != 2 || d.Processes[0].State != Started || d.Processes[1].State != Ended {
		t.Errorf("%+v", d.Processes)
	}
	// inodes mean nothing from one boot to the other
	if len(d.Components) != 1 || d.Components[0].RSS != (Delta{10, 30}) {
		t.Errorf("%+v", d.Components)
	}
	if d := Compare(shot(""), shot(""), RSS); d.SameBoot {
		t.Error("boots that are not known are the same")
	}
}

func TestPages(t *testing.T) {
	s := shot("boot", process(1, 1), process(2, 1), process(3, 1))
	s.Machine.PageSize = 4096
	s.Pages = &snapshot.Pages{
		Processes: []snapshot.ProcessPages{
			{Process: 0, Runs: []snapshot.PageRun{{Page: 0, Frame: 10, Count: 4, Component: 0}, {Page: 8, Frame: 50, Count: 2, Component: 1}}},
			{Process: 1, Runs: []snapshot.PageRun{{Page: 0, Frame: 50, Count: 3, Component: 1}, {Page: 9, Frame: 12, Count: 1, Component: 0}}},
			{Process: 2, Runs: []snapshot.PageRun{{Page: 0, Frame: 9, Count: 2, Component: 0}, {Page: 7, Frame: 70, Count: 1, Component: 1}}},
		},
		Frames: []snapshot.FrameRun{
			{First: 9, Count: 1, Mapped: 700, Flags: uint64(procfs.FrameZero)},
			{First: 10, Count: 1, Mapped: 2, Flags: 1}, {First: 11, Count: 1, Mapped: 1}, {First: 12, Count: 1, Mapped: 2, Flags: 1},
			{First: 13, Count: 1, Mapped: 0}, {First: 50, Count: 2, Mapped: 4}, {First: 52, Count: 1, Mapped: 1},
		},
	}
	table := NewPages(s)
	for i, want := range []struct {
		pid      int
		uss, rss uint64
		pss      float64
		unknown  uint64
	}{
		{1, 2, 6, 1. + 1 + .5 + .5 + .25 + .25, 0}, // frame 13 was given up before its count was read
		{2, 1, 4, 1. + .25 + .25 + .5, 0},
		{3, 0, 2, .5, 1}, // the page of zeroes is in no RSS; of frame 70 nothing is known
	} {
		r := table.Rows[i]
		if r.PID != want.pid || r.USS != want.uss || r.RSS != want.rss || r.PSS != want.pss || r.Unknown != want.unknown {
			t.Errorf("row %d: process %d, %+v; want %+v", i, r.PID, r, want)
		}
	}
	// frames 9 to 13, 50 to 52 and 70
	if table.Distinct != 9 || table.Unknown != 1 {
		t.Errorf("%d distinct, %d unknown", table.Distinct, table.Unknown)
	}
	if c := table.Columns; len(c) != 2 || c[0].Name != "[anon]" || c[0].Frames != 5 || c[0].Pages != 7 || c[1].Frames != 4 || c[1].Pages != 6 {
		t.Errorf("components: %+v", c)
	}
	if m := table.ByMapped; !slices.Equal(m, []MapCount{{0, 1}, {1, 2}, {2, 2}, {4, 2}, {700, 1}}) {
		t.Errorf("map counts: %v", m)
	}
	if f := table.ByFlags; !slices.Equal(f, []FlagCount{{0, 5}, {1, 2}, {uint64(procfs.FrameZero), 1}}) {
		t.Errorf("flags: %v", f)
	}
	if NewPages(shot("boot")) != nil {
		t.Error("pages of a snapshot without any")
	}
}
