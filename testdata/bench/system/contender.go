package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	prometheus "github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// measurement is one turn: by the clock, and of all processors' time.
type measurement struct{ Elapsed, CPU time.Duration }

// contender reads the memory of all processes once.
type contender struct {
	name    string
	measure func() (measurement, error)
	close   func()
}

const (
	floorName    = "floor: the kernel's own walks"
	memtraceName = "memtrace, again and again"
	onceName     = "memtrace, once, from nothing"
	allName      = "the same, with command lines, control groups and OOM scores"
)

// open lists those that this machine has.
func open() ([]contender, error) {
	full, err := collect.Open(collect.Options{})
	if err != nil {
		return nil, err
	}
	live, err := collect.Open(collect.Options{Budget: collect.DefaultBudget()})
	if err != nil {
		return nil, err
	}
	all := []contender{
		{name: floorName, measure: own(walkAll)},
		{name: memtraceName, measure: own(func() error { return collectAll(full) }), close: func() { _ = full.Close() }},
		{name: onceName, measure: own(func() error { return collectOnce(collect.User | collect.Shared | collect.Memory) })},
		{name: allName, measure: own(func() error { return collectOnce(collect.All) })},
		{name: "memtrace, live, with its stall budget", measure: own(func() error { return collectAll(live) }), close: func() { _ = live.Close() }},
		{name: "a reader on prometheus/procfs", measure: own(readPrometheus)},
	}
	for _, c := range []struct {
		name string
		argv []string
	}{
		{"smem", []string{"smem", "-H", "-c", "pid user command swap uss pss rss"}},
		{"ps_mem", []string{"ps_mem"}},
	} {
		if _, err := exec.LookPath(c.argv[0]); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s is not installed, so left out\n", c.name)
			continue
		}
		all = append(all, contender{name: c.name, measure: func() (measurement, error) { return command(c.argv) }})
	}
	for i := range all {
		if all[i].close == nil {
			all[i].close = func() {}
		}
	}
	return all, nil
}

// own measures a function of this process, in a row of turns that takes at
// least a twentieth of a second, after one turn that isn't measured: others
// have had the processor's caches meanwhile.
func own(fn func() error) func() (measurement, error) {
	return func() (measurement, error) {
		runtime.GC()
		if err := fn(); err != nil {
			return measurement{}, err
		}
		began, used := time.Now(), cpuTime(unix.RUSAGE_SELF)
		n := 0
		for n == 0 || time.Since(began) < 50*time.Millisecond {
			if err := fn(); err != nil {
				return measurement{}, err
			}
			n++
		}
		return measurement{time.Since(began) / time.Duration(n), (cpuTime(unix.RUSAGE_SELF) - used) / time.Duration(n)}, nil
	}
}

func command(argv []string) (measurement, error) {
	began, used := time.Now(), cpuTime(unix.RUSAGE_CHILDREN)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = io.Discard
	err := cmd.Run()
	return measurement{time.Since(began), cpuTime(unix.RUSAGE_CHILDREN) - used}, err
}

func cpuTime(who int) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func collectAll(c *collect.Collector) error {
	_, err := c.Collect(collect.All)
	return err
}

// collectOnce reads what is wanted as a program does that ends afterwards.
func collectOnce(want collect.Fields) error {
	c, err := collect.Open(collect.Options{})
	if err != nil {
		return err
	}
	_, err = c.Collect(want)
	return errors.Join(err, c.Close())
}

// onAllCores runs fn for each process, on as many threads as memtrace has.
func onAllCores(pids []int, fn func(pid int, buf []byte)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			buf := make([]byte, 4096)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(pids) {
					return
				}
				fn(pids[i], buf)
			}
		})
	}
	wg.Wait()
}

var pids []int

// walkAll opens, reads and closes each smaps_rollup. Listing /proc is counted
// in, for what is measured is a collection.
func walkAll() error {
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		return err
	}
	d, err := fs.Open()
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if pids, err = d.PIDs(pids[:0]); err != nil {
		return err
	}
	onAllCores(pids, func(pid int, buf []byte) {
		path := append(strconv.AppendInt(append(buf[:0], "/proc/"...), int64(pid), 10), "/smaps_rollup"...)
		fd, err := unix.Open(string(path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		_, _ = unix.Read(fd, buf) // a kernel thread has none
		_ = unix.Close(fd)
	})
	return nil
}

// readPrometheus reads what an exporter would: the rollup and the name.
func readPrometheus() error {
	fs, err := prometheus.NewFS(procfs.DefaultRoot)
	if err != nil {
		return err
	}
	procs, err := fs.AllProcs()
	if err != nil {
		return err
	}
	byPID := make(map[int]prometheus.Proc, len(procs))
	all := make([]int, 0, len(procs))
	for _, p := range procs {
		byPID[p.PID] = p
		all = append(all, p.PID)
	}
	onAllCores(all, func(pid int, _ []byte) {
		p := byPID[pid]
		if _, err := p.ProcSMapsRollup(); err != nil {
			return // a kernel thread, or gone
		}
		_, _ = p.Comm()
	})
	return nil
}
