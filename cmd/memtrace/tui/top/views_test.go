package top

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

func TestProcessView(t *testing.T) {
	s := example()
	s.Processes[0].DeltaPSS, s.Processes[1].DeltaPSS = known(3*mib), known(-kib)
	table := processTable(s, options{threshold: mib, command: withoutPath})
	redis := ID{PID: 101, Start: 1010}
	for column, want := range map[string]string{
		"pid": "101", "user": "redis", "state": "S", "threads": "4", "virt": "4.00G", "rss": "900M", "pss": "880M", "uss": "870M",
		"swap": "1.00M", "mem": "11.0", "time": "1:23.00", "delta": "+3.00M", "oom": "667", "command": "redis-server --port redis",
		"cgroup": "/system.slice/redis-server.service",
	} {
		if got := cellOf(t, table, redis, column).String(); got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
	if !cellOf(t, table, redis, "delta").Strong || cellOf(t, table, ID{PID: 102, Start: 1020}, "delta").Strong {
		t.Error("a change is bold from the threshold on, and not below it")
	}
	for id, want := range map[ID]string{{PID: 301, Start: 3010}: "?", {PID: 401, Start: 4010}: "…", {PID: 2, Start: 1}: "-"} {
		if got := cellOf(t, table, id, "pss").String(); got != want {
			t.Errorf("PSS of %d is %q, want %q", id.PID, got, want)
		}
	}
	if got := cellOf(t, table, ID{PID: 2, Start: 1}, "command").String(); got != "[kthreadd]" {
		t.Errorf("kernel thread is %q", got)
	}
}

// What was read before the memory changed is marked, and none of it is more than what is resident now.
func TestStaleFiguresAreMarked(t *testing.T) {
	s := example()
	p := &s.Processes[0] // of 900M, 880M and 870M
	p.Behind, p.PSS.Stale, p.USS.Stale, p.RSS = true, true, true, known(875*mib)
	redis := ID{PID: 101, Start: 1010}
	table := processTable(s, options{command: withoutPath})
	for column, want := range map[string]string{"rss": "875M", "pss": "~875M", "uss": "~870M", "swap": "1.00M"} {
		if got := cellOf(t, table, redis, column).String(); got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
	if got := cellOf(t, programTable(s, options{}), ID{Name: "redis-server"}, "pss").String(); !strings.HasPrefix(got, "~") {
		t.Errorf("the program's PSS is %q, of which a part is stale", got)
	}
	at := slices.IndexFunc(table.Columns, func(c Column) bool { return c.Name == "pss" })
	row := 0
	for table.ID(row) != redis {
		row++
	}
	if drawn := cell(table, row, placed{column: at, width: 7}, false, &tui.ColourTheme); drawn != "\x1b[2m  ~875M\x1b[0m" {
		t.Errorf("a stale figure is drawn as %q, and is to be dim", drawn)
	}
	if got := rowJSON(table, row, []int{at}); !reflect.DeepEqual(got["stale"], []string{"pss"}) {
		t.Errorf("JSON has %v", got)
	}
}

func TestProgramsCountSharedAddressSpacesOnce(t *testing.T) {
	table := programTable(example(), options{})
	for name, want := range map[string]map[string]string{
		"redis-server": {"processes": "2", "threads": "8", "rss": "1.17G", "pss": "1.13G", "uss": "1.11G", "user": "redis", "program": "redis-server"},
		"twin":         {"processes": "2", "rss": "100M", "pss": "60.0M", "uss": "20.0M", "program": "twin *"},
		"secret":       {"rss": "50.0M", "pss": "?"},
		"huge":         {"pss": "…"},
	} {
		for column, figure := range want {
			if got := cellOf(t, table, ID{Name: name}, column).String(); got != figure {
				t.Errorf("%s: %s is %q, want %q", name, column, got, figure)
			}
		}
	}
	if table.Len != 4 {
		t.Errorf("%d programs, want 4: a kernel thread is none", table.Len)
	}
}

// Where a part is unknown, a sum says that it is a lower bound.
func TestPartialSums(t *testing.T) {
	s := example()
	s.Processes[1].PSS = denied
	got := cellOf(t, programTable(s, options{}), ID{Name: "redis-server"}, "pss")
	if got.String() != ">880M" {
		t.Errorf("sum of 880M and an unknown: %q", got)
	}
}

func TestSharingView(t *testing.T) {
	s := example()
	s.Processes[2].RSS.N += 50 * mib // it has grown since its PSS was read
	table := sharingTable(s, options{})
	twin := ID{PID: 201, Start: 2010}
	for column, want := range map[string]string{"rss": "100M", "pss": "60.0M", "uss": "20.0M", "shared": "80.0M", "saved": "40.0M", "efficiency": "40.0"} {
		if got := cellOf(t, table, twin, column).String(); got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
	// 20 of 100 own, 40 its part of what is shared, 40 saved: 16 columns.
	if got := cellOf(t, table, twin, "parts").Text; got != "███▒▒▒▒▒▒▒░░░░░░" {
		t.Errorf("bar %q", got)
	}
	// 900+300+100 (the twin once), 870+270+20 of it own, 880+280+60 PSS.
	note := table.Notes[0]
	for _, part := range []string{"RSS 1.27G", "own 1.13G", "part of shared 60.0M", "saved by sharing 80.0M", "could not be read: 2"} {
		if !strings.Contains(note, part) {
			t.Errorf("note %q lacks %q", note, part)
		}
	}
	if got := cellOf(t, table, ID{PID: 301, Start: 3010}, "saved").String(); got != "?" {
		t.Errorf("what a process saves that may not be read: %q", got)
	}
}

func TestMemoryViewKeepsItsOrderAndAddsUp(t *testing.T) {
	s := full()
	table := memoryTable(s, options{})
	var sum int64
	for i := range s.Books {
		if s.Books[i].Depth == 0 {
			sum += table.Cell(i, table.column("size")).N
		}
	}
	if sum != s.Machine.Total.N {
		t.Errorf("the entries add up to %d, want %d", sum, s.Machine.Total.N)
	}
	if order := table.order(table.column("size"), false); order[0] != 0 || order[len(order)-1] != len(order)-1 {
		t.Errorf("order %v", order)
	}
	for name, want := range map[string]string{"page cache": "25.0", "unexplained": "-0.0"} {
		if got := cellOf(t, table, ID{Name: name}, "of_total").String(); got != want {
			t.Errorf("%s is %q%%, want %q", name, got, want)
		}
	}
}

func TestNUMAView(t *testing.T) {
	table := numaTable(full(), options{})
	redis := ID{PID: 101, Start: 1010}
	if a, b := cellOf(t, table, redis, "n0").String(), cellOf(t, table, redis, "n1").String(); a != "3.00M" || b != "1.00M" {
		t.Errorf("on the nodes: %s and %s", a, b)
	}
	if len(table.Notes) != 2 || !strings.Contains(table.Notes[0], "node 0") || !strings.Contains(table.Notes[0], "3.00G of 4.00G used") {
		t.Errorf("notes %q", table.Notes)
	}
	if got := cellOf(t, table, redis, "spread").Text; got != "████████████▒▒▒▒" {
		t.Errorf("spread %q", got)
	}
}

func TestGroupView(t *testing.T) {
	table := groupTable(full(), options{})
	redis, secret := ID{Name: "/system.slice/redis-server.service"}, ID{Name: "/system.slice/secret.service"}
	for column, want := range map[string]string{
		"current": "1.00G", "max": "2.00G", "working_set": "900M", "psi_some": "0.5", "oom": "1", "oom_kills": "1",
		"uss": ">1.11G", "pss": "1.13G", "container": "redis-server",
	} {
		if got := cellOf(t, table, redis, column).String(); got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
	for column, want := range map[string]string{"max": "-", "uss": "?", "psi_some": "?", "peak": "n/a"} {
		if got := cellOf(t, table, secret, column).String(); got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
	if !cellOf(t, table, redis, "oom_kills").Strong {
		t.Error("an OOM kill does not stand out")
	}
}

func TestViewsOfOneProcess(t *testing.T) {
	s := full()
	threads := threadTable(s, options{})
	for column, want := range map[string]string{"minor": "5000", "major": "3", "processor": "1", "node": "0", "stack_size": "132K", "stack": "[stack]"} {
		if got := cellOf(t, threads, ID{PID: 101}, column).String(); got != want {
			t.Errorf("thread's %s is %q, want %q", column, got, want)
		}
	}
	if threads.column("pss") >= 0 {
		t.Error("threads have no PSS of their own")
	}
	mappings := mappingTable(s, options{})
	for column, want := range map[string]string{"size": "1.00G", "rss": "512M", "perms": "rw-p", "mapping": "[anon]"} {
		if got := cellOf(t, mappings, ID{Name: "00007f0000000000"}, column).String(); got != want {
			t.Errorf("mapping's %s is %q, want %q", column, got, want)
		}
	}
	if want := "2 mappings, RSS 513M PSS 512M USS 512M"; !strings.Contains(mappings.Notes[0], want) {
		t.Errorf("note %q, want %q", mappings.Notes[0], want)
	}
	none := threadTable(&Snapshot{}, options{})
	if none.Len != 0 || !strings.Contains(none.Empty, "choose a process") {
		t.Errorf("without a process: %q", none.Empty)
	}
}

func TestComponentView(t *testing.T) {
	table := componentTable(full(), options{})
	libc := ID{Name: "file /usr/lib/x86_64-linux-gnu/libc.so.6"}
	for column, want := range map[string]string{"pss": "2.00M", "uss": "100K", "rss": "9.00M", "processes": "6", "kind": "file"} {
		if got := cellOf(t, table, libc, column).String(); got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
}

func TestHistory(t *testing.T) {
	var h History
	first, second := example(), example()
	h.Add(first)
	if cpu := first.Processes[0].CPU; cpu.N != 1000 { // 83 s of 830 s
		t.Errorf("since it started: %+v, want 10 %%", cpu)
	}
	if first.Processes[0].DeltaPSS.Known() {
		t.Error("a change is known after one Snapshot")
	}
	second.At = first.At.Add(2e9)
	second.Processes[0].CPUTime.N += 5e8
	second.Processes[0].PSS.N += mib
	second.Processes[1].PSS = Figure{} // over budget this time
	second.Processes[4].Start++        // its PID was given to another process
	h.Add(second)
	if p := &second.Processes[0]; p.CPU.N != 2500 || p.DeltaPSS.N != mib || len(p.Trend) != 2 {
		t.Errorf("CPU %+v, change %+v, trend %v; want 25 %%, 1 MiB, two values", p.CPU, p.DeltaPSS, p.Trend)
	}
	if second.Processes[1].DeltaPSS.Known() {
		t.Error("a PSS that was not read has a change")
	}
	if p := &second.Processes[4]; len(p.Trend) != 1 {
		t.Errorf("another process under the same PID has the trend %v", p.Trend)
	}
	third := example()
	third.At = second.At.Add(1e9)
	third.Processes[1].PSS.N += 5 * mib
	h.Add(third)
	if d := third.Processes[1].DeltaPSS; !d.Known() || d.N != 5*mib {
		t.Errorf("change since it was last known: %+v, want 5 MiB", d)
	}
}

func TestCommandsWithoutTheirPath(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/bin/redis-server /etc/redis.conf": "redis-server /etc/redis.conf",
		"../build/a.out -x":                     "a.out -x",
		"nginx: worker /etc":                    "nginx: worker /etc",
		"sshd: root@pts/0":                      "sshd: root@pts/0",
		"/":                                     "/",
	} {
		if got := trimPath(command); got != want {
			t.Errorf("%q is shown as %q, want %q", command, got, want)
		}
	}
}
