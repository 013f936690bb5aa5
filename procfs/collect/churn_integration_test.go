//go:build integration && services

package collect

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/proctest"
)

// TestChurn collects 2,000 processes, of which 200 a second end and are
// replaced: no error, no figure of another process, bounded memory and
// descriptors. It is too much for an emulated machine.
func TestChurn(t *testing.T) {
	const processes, perSecond, span = 2000, 200, 5 * time.Second
	stop := make(chan struct{})
	churned := make(chan error, 1)
	fleet := make([]*exec.Cmd, 0, processes)
	defer func() {
		for _, cmd := range fleet {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	for i := range processes {
		cmd, err := startNumbered(i)
		if err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, cmd)
	}
	c := open(t, Options{Budget: DefaultBudget(), RefreshEvery: -1})
	collectAll(t, c, All)
	before, files := heapBytes(), len(proctest.OpenDescriptors())
	var replaced atomic.Int64
	go func() { churned <- churn(fleet, perSecond, &replaced, stop) }()
	passes, rows := 0, 0
	for began := time.Now(); time.Since(began) < span; passes++ {
		first, seen := replaced.Load(), 0
		for _, p := range collectAll(t, c, All).Processes {
			if strings.Contains(p.Cmdline, numbered) {
				seen++
				checkRow(t, p)
			}
		}
		// It may lack all that were replaced meanwhile, however long it took, and some that were met as they started.
		if least := processes*9/10 - int(replaced.Load()-first); seen < least {
			t.Errorf("%d rows of %d processes, want %d at least", seen, processes, least)
		}
		rows += seen
	}
	close(stop)
	if err := <-churned; err != nil {
		t.Error(err)
	}
	seen := 0
	for _, p := range collectAll(t, c, All).Processes {
		if strings.Contains(p.Cmdline, numbered) {
			seen++
		}
	}
	if seen != processes {
		t.Errorf("%d rows of %d processes once none is replaced", seen, processes)
	}
	t.Logf("%d passes, %d rows", passes, rows)
	if after := heapBytes(); after > before+before/2+1<<20 {
		t.Errorf("heap grew from %d to %d bytes", before, after)
	}
	if now := len(proctest.OpenDescriptors()); now > files+perSecond {
		t.Errorf("%d descriptors; before %d", now, files)
	}
}

// numbered is in the command line of the churned processes: their number
// follows, once as argument and once as name.
const numbered = "memtrace-churn"

// startNumbered starts a process that says twice who it is, so that a row that
// mixes two processes shows.
func startNumbered(i int) (*exec.Cmd, error) {
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("printf c%d >/proc/$$/comm; exec 3<&0; read x <&3", i), numbered, fmt.Sprint(i))
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return cmd, cmd.Start()
}

// churn replaces so many of the fleet a second, until stop is closed, and counts them.
func churn(fleet []*exec.Cmd, perSecond int, replaced *atomic.Int64, stop chan struct{}) error {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		old := fleet[i%len(fleet)]
		_ = old.Process.Kill()
		_ = old.Wait()
		cmd, err := startNumbered(len(fleet) + i)
		if err != nil {
			return err
		}
		fleet[i%len(fleet)] = cmd
		replaced.Add(1)
	}
}

// checkRow checks that a row is of one process.
func checkRow(t *testing.T, p *Process) {
	t.Helper()
	fields := strings.Fields(p.Cmdline)
	number := fields[len(fields)-1]
	if renamed := strings.HasPrefix(p.Comm, "c"); renamed && p.Comm != "c"+number {
		t.Errorf("%s has the command line of %s", p.Comm, p.Cmdline)
	}
	pss, o := p.PSS()
	uss, _ := p.USS()
	if o == procfs.Known && (pss == 0 || uss > pss || pss > p.Memory.Rss) {
		t.Errorf("%+v", p)
	}
	if o != procfs.Known && o != procfs.NoMemory && o != procfs.Deferred {
		t.Errorf("%s: %v", p.Cmdline, o)
	}
	if p.PPID != os.Getpid() || p.UID != uint32(unix.Geteuid()) {
		t.Errorf("%+v", p)
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
