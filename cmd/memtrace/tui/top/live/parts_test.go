package live

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/procfs/collect"
)

func identityOf(t *testing.T, s *top.Snapshot, pid int) collect.Identity {
	t.Helper()
	return collect.Identity{PID: pid, StartTime: processOf(t, s, pid).Start}
}

// someProcess is this one, so that there is a directory to open.
func someProcess(rss uint64) *collect.Process {
	return &collect.Process{Identity: collect.Identity{PID: os.Getpid(), StartTime: 1}, State: 'S', VSize: 1 << 30, RSS: rss}
}

func TestPacerKeepsToItsBudget(t *testing.T) {
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	reads := 0
	result := error(nil)
	c := pacer[int]{budget: collect.Budget{Stall: 2 * time.Millisecond, Total: time.Second, MaxAge: time.Minute}}
	pass := func(p *collect.Process, later time.Duration) top.Cost {
		var cost top.Cost
		c.pass(fs, &collect.Pass{At: at.Add(later), Processes: []*collect.Process{p}}, &cost,
			func(*procfs.Process) (int, error) { reads++; return reads, result })
		return cost
	}
	p := someProcess(1 << 20)
	if cost := pass(p, 0); reads != 1 || cost.Walked != 1 {
		t.Errorf("the first pass: %d reads, %+v", reads, cost)
	}
	if cost := pass(p, time.Second); reads != 1 || cost.Unchanged != 1 {
		t.Errorf("unchanged: %d reads, %+v", reads, cost)
	}
	p.MinFlt++
	if cost := pass(p, 2*time.Second); reads != 2 || cost.Walked != 1 {
		t.Errorf("changed: %d reads, %+v", reads, cost)
	}
	p.MinFlt++
	c.processes[p.Identity].next = at.Add(time.Hour) // as after a long walk
	if cost := pass(p, 3*time.Second); reads != 2 || cost.Deferred != 1 {
		t.Errorf("left alone: %d reads, %+v", reads, cost)
	}
	c.processes[p.Identity].next = time.Time{}
	result = errors.New("gone wrong")
	pass(p, 4*time.Second)
	if h := c.processes[p.Identity]; h.value != 2 || !h.known || h.outcome == procfs.Known {
		t.Errorf("a read that failed took the last figures away: %+v", h)
	}
	huge := someProcess(1 << 40)
	huge.StartTime = 2
	if cost := pass(huge, 5*time.Second); cost.Deferred != 1 || reads != 3 {
		t.Errorf("a walk of minutes: %d reads, %+v", reads, cost)
	}
	if len(c.processes) != 1 {
		t.Errorf("%d processes are remembered, want 1", len(c.processes))
	}
}

func TestSharedAddressSpaces(t *testing.T) {
	asked := 0
	s := spaces{same: func(a, b int) bool { asked++; return a+b == 201+202 || a+b == 301+201 }}
	make := func(pid, ppid int, size uint64) *collect.Process {
		return &collect.Process{Identity: collect.Identity{PID: pid, StartTime: 1}, PPID: ppid, State: 'S', VSize: size}
	}
	all := []*collect.Process{make(101, 1, 5), make(201, 101, 7), make(202, 201, 7), make(203, 101, 7), make(301, 101, 7), make(401, 9, 8)}
	s.update(all)
	id := func(pid int) uint64 { return s.known[collect.Identity{PID: pid, StartTime: 1}].id }
	if id(201) == 0 || id(201) != id(202) || id(301) != id(201) || id(203) != 0 || id(101) != 0 {
		t.Errorf("spaces %+v", s.known)
	}
	before := asked
	s.update(all)
	if asked != before {
		t.Error("what has not changed is compared again")
	}
	all[2].VSize = 9 // it has executed something else
	s.update(all[1:])
	if id(202) != 0 || len(s.known) != 5 {
		t.Errorf("after exec and an exit: %+v", s.known)
	}
}

func TestContainers(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for path, want := range map[string]string{
		"/docker/" + id:                                                       "docker 0123456789ab",
		"/system.slice/docker-" + id + ".scope":                               "docker 0123456789ab",
		"/machine.slice/libpod-" + id + ".scope":                              "libpod 0123456789ab",
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope": "cri-containerd 0123456789ab",
		"/kubepods/besteffort/pod1/" + id:                                     "0123456789ab",
		"/system.slice/nginx.service":                                         "nginx",
		"/user.slice":                                                         "",
		"/":                                                                   "",
	} {
		if got := cgroup.Label(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

func TestGroupsAddUpTheirProcesses(t *testing.T) {
	known := func(n int64) top.Figure { return top.Figure{N: n, State: top.Known} }
	in := func(cgroup string, pss, uss top.Figure, space uint64) top.Process {
		return top.Process{Cgroup: cgroup, PSS: pss, USS: uss, Space: space}
	}
	members := membersOf([]top.Process{
		in("/a/b", known(10), known(8), 0),
		in("/a/b", known(20), known(20), 7),
		in("/a/c", known(20), known(20), 7), // the same address space
		in("/a", top.Figure{State: top.Denied}, top.Figure{State: top.Denied}, 0),
		in("/", top.Figure{State: top.None}, top.Figure{State: top.None}, 0),
	})
	for path, want := range map[string]membersSum{"/a/b": {2, 0, 30, 28}, "/a/c": {1, 0, 0, 0}, "/a": {4, 1, 30, 28}, "/": {5, 1, 30, 28}} {
		if got := *members[path]; got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	g := groupOf(&cgroup.Group{Path: "/a", Max: cgroup.Value{Unlimited: true, Outcome: procfs.Known}}, members["/a"])
	if g.Max.State != top.None || g.UnknownIn != 1 || !g.Shares || g.USS.N != 28 {
		t.Errorf("%+v", g)
	}
	only := groupOf(&cgroup.Group{}, &membersSum{processes: 1, unknown: 1})
	if only.USS.State != top.Denied || only.Current.Known() {
		t.Errorf("a group whose only process may not be read: %+v", only)
	}
}

func TestComponentsAreBounded(t *testing.T) {
	of := make(parts)
	for i := range maxParts + 10 {
		v := procfs.VMA{Path: []byte{'/', byte(i), byte(i >> 8), byte(i >> 16)}, Kind: procfs.KindFile}
		v.Rss = 4096
		of.add(&v)
	}
	if len(of) != maxParts+1 || of[componentKey{otherParts, procfs.KindOther}].Rss != 10*4096 {
		t.Errorf("%d components; the others have %d", len(of), of[componentKey{otherParts, procfs.KindOther}].Rss)
	}
}
