//go:build integration && services

package main

import (
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// startBurner starts a nice process that has used some processor time and then
// stopped, so that its figures stay as they are.
func startBurner(t *testing.T) int {
	t.Helper()
	const program = `import os, signal, time
x = bytearray(24 << 20)
while time.process_time() < 0.7: pass
os.kill(os.getpid(), signal.SIGSTOP)`
	burner := spawn(t, exec.Command("nice", "-n", "7", need(t, "python3"), "-c", program))
	eventually(t, "python stops", func() bool {
		out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(burner.pid())).Output()
		return err == nil && strings.TrimSpace(string(out)) == "T"
	})
	return burner.pid()
}

// topFields are what procps' top has of a process.
func topFields(t *testing.T, pid int) map[string]string {
	t.Helper()
	cmd := exec.Command(need(t, "top"), "-b", "-n", "1", "-p", strconv.Itoa(pid))
	cmd.Env = append(cmd.Environ(), "LC_ALL=C", "COLUMNS=200", "HOME=/nonexistent")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	titles, cells := strings.Fields(lines[len(lines)-2]), strings.Fields(lines[len(lines)-1])
	fields := make(map[string]string)
	for i, title := range titles {
		fields[title] = cells[i]
	}
	delete(fields, "%CPU") // falls as the process grows older
	return fields
}

// TestTopAgreesWithTop compares a row with that of procps' top: sizes to its
// KiB, processor time to its hundredth of a second.
func TestTopAgreesWithTop(t *testing.T) {
	pid := startBurner(t)
	peer, row := proctest.Settled(t, func() map[string]string { return topFields(t, pid) }, func() map[string]any {
		return only(t, topOnceAs(t, 0, "--filter", "pid:"+strconv.Itoa(pid)))
	})
	spent := time.Duration(figure(t, row, "time"))
	for title, ours := range map[string]any{
		"PID": figure(t, row, "pid"), "USER": row["user"], "S": row["state"],
		"PR": figure(t, row, "priority"), "NI": figure(t, row, "nice"),
		"VIRT": figure(t, row, "virt") >> 10, "RES": figure(t, row, "rss") >> 10, "SHR": figure(t, row, "shr") >> 10,
		"TIME+": fmt.Sprintf("%d:%05.2f", int(spent.Minutes()), math.Mod(spent.Seconds(), 60)),
	} {
		if fmt.Sprint(ours) != peer[title] {
			t.Errorf("%s is %v; top says %q", title, ours, peer[title])
		}
	}
	if share, err := strconv.ParseFloat(peer["%MEM"], 64); err != nil || math.Abs(share-row["mem"].(float64)) > 0.06 {
		t.Errorf("%%MEM is %v; top says %s", row["mem"], peer["%MEM"])
	}
	if spent < 680*time.Millisecond { // user and system time are cut off to hundredths
		t.Errorf("it has used %v", spent)
	}
}

// TestTopAgreesWithPs: what a stopped process used of its life falls from one
// look to the next, so that memtrace's share lies between two of ps', but for
// the hundredths of a second that both cut the two times off at.
func TestTopAgreesWithPs(t *testing.T) {
	pid := startBurner(t)
	before := psFields(t, pid)
	row := only(t, topOnceAs(t, 0, "--filter", "pid:"+strconv.Itoa(pid)))
	after := psFields(t, pid)
	share := row["cpu"].(float64)
	life := float64(figure(t, row, "time")) / 1e9 * 100 / after["pcpu"] // in seconds
	// A tenth is the least that ps tells: the longer the program took to use its time, the less the hundredths are.
	if slack := 100*0.02/life + 0.1; share > before["pcpu"]+slack || share < after["pcpu"]-slack {
		t.Errorf("%%CPU is %.2f; ps says %v before and %v after", share, before["pcpu"], after["pcpu"])
	}
	for name, want := range map[string]float64{"priority": after["priority"], "nice": after["nice"], "threads": after["nlwp"]} {
		if got := figure(t, row, name); float64(got) != want {
			t.Errorf("%s is %d; ps says %v", name, got, want)
		}
	}
}

// psFields are the figures that ps has of a process.
func psFields(t *testing.T, pid int) map[string]float64 {
	t.Helper()
	names := []string{"pcpu", "priority", "nice", "nlwp"}
	out, err := exec.Command(need(t, "ps"), "-o", strings.Join(names, "=,")+"=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := make(map[string]float64)
	for i, word := range strings.Fields(string(out)) {
		if fields[names[i]], err = strconv.ParseFloat(word, 64); err != nil {
			t.Fatalf("ps says %q: %v", out, err)
		}
	}
	return fields
}

// psMemSum adds a program up as ps_mem documents that it does: private memory,
// and of what is shared each process's part (PSS − private), in KiB; processes
// that share one address space, whose figures are the same to the last, once.
// To tell those it takes readings of which two in a row are the same. ps_mem
// itself is not in Debian.
const psMemSum = `
import os, sys
def texts():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.basename(os.readlink("/proc/%s/exe" % pid)) == sys.argv[1]:
                found[pid] = open("/proc/%s/smaps" % pid).read()
        except OSError:
            pass
    return found
last, now = None, texts()
while now != last:
    last, now = now, texts()
private = shared = mappings = 0
for text in set(now.values()):
    def total(*keys):
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(keys))
    own = total("Private_Clean:", "Private_Dirty:")
    private, shared = private + own, shared + total("Pss:") - own
    mappings += text.count("\nPss:")
print(len(now), private, shared, mappings)
`

// psMem is what psMemSum prints, in bytes where those are meant.
type psMem struct{ processes, private, shared, mappings int64 }

func psMemOf(t *testing.T, name string) (sum psMem) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), need(t, "python3"), "-c", psMemSum, name).Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &sum.processes, &sum.private, &sum.shared, &sum.mappings); err != nil {
		t.Fatal(err)
	}
	sum.private, sum.shared = sum.private<<10, sum.shared<<10
	return sum
}

// TestProgramsAgreeWithPsMem holds a program's row against ps_mem's sum. Its
// processes share their files with each other, and with nobody else.
func TestProgramsAgreeWithPsMem(t *testing.T) {
	program := copyKnownMemory(t)
	program.start(t, "twin")
	k := program.start(t)
	peer, row := proctest.Settled(t, func() psMem { return psMemOf(t, k.Name) }, func() map[string]any {
		return only(t, topOnceAs(t, 0, "--view", "programs", "--filter", "name:"+k.Name))
	})
	if n := figure(t, row, "processes"); n != peer.processes || n != 3 {
		t.Errorf("%d processes, by ps_mem's way %d", n, peer.processes)
	}
	if n := figure(t, row, "uss"); n != peer.private {
		t.Errorf("%d bytes are private, by ps_mem's way %d", n, peer.private)
	}
	// smaps rounds each mapping down.
	sum := peer.private + peer.shared
	if n := figure(t, row, "pss"); n < sum || n > sum+peer.mappings<<10 {
		t.Errorf("private and shared are %d bytes, by ps_mem's way %d of %d mappings", n, sum, peer.mappings)
	}
	if n := figure(t, row, "pss"); n < 2*k.Private || n > 2*k.Private+slack {
		t.Errorf("two address spaces of %d bytes have %d", k.Private, n)
	}
	if peer.shared < 64<<10 {
		t.Errorf("the two share %d bytes of their files", peer.shared)
	}
}
