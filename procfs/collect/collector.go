package collect

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// Options of a Collector; the zero value is for use.
type Options struct {
	// Root is where proc is mounted; procfs.DefaultRoot if empty.
	Root string
	// Workers is how many threads read; as many as there are cores if 0.
	Workers int
	// RefreshEvery is how old User, Cmdline, Cgroup and OOMScore may get, which
	// seldom change; 10 s if 0, and read in every pass if negative. A process
	// that changes its name, as by exec, has them read at once.
	RefreshEvery time.Duration
	// Budget bounds what reading Memory costs its targets; the zero Budget
	// bounds nothing.
	Budget Budget
}

// Collector reads the processes of a machine, again and again.
type Collector struct {
	// Meter predicts walks, and learns from them.
	Meter Meter

	opts    Options
	dir     *procfs.Dir
	order   []*entry // as in the last pass, by PID
	before  []*entry // for match to write the next order into
	walks   []*entry // to be walked in this pass
	byAge   []*entry // those that want to be walked in this pass, the oldest figures first
	byMove  []*entry // the same, by how far RSS has moved
	lacking []*entry // whose swap status is to tell, in this pass
	pids    []int
	pass    Pass
	maxHeld int // how many descriptors processes may hold
	held    atomic.Int64
	failed  atomic.Pointer[error] // the first one in this pass that isn't a process's end

	credit   time.Duration // left of Budget.Total
	creditAt time.Time
	// oldestNext says whose turn it is to be walked: see spread.
	oldestNext bool
	kin        map[kin]bool // of processes that began or ended
	now        func() time.Time
	cpu        func() time.Duration // that this thread has used

	maxMappings int // that a process may have
}

// Pass is the result of one collection.
type Pass struct {
	At        time.Time     // when it began
	Took      time.Duration // how long it took
	Processes []*Process    // by PID
	Walks     Walks         // what reading Memory cost
}

// Open begins to collect. The caller closes the Collector.
func Open(o Options) (*Collector, error) {
	if o.Root == "" {
		o.Root = procfs.DefaultRoot
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.RefreshEvery == 0 {
		o.RefreshEvery = 10 * time.Second
	}
	fs, err := procfs.New(o.Root)
	if err != nil {
		return nil, err
	}
	dir, err := fs.Open()
	if err != nil {
		return nil, err
	}
	return &Collector{
		opts: o, dir: dir, kin: make(map[kin]bool), now: time.Now, cpu: threadTime,
		maxHeld: maxHeld(), maxMappings: maxMappings(o.Root),
	}, nil
}

// maxHeld leaves half of the descriptors that this process may have to others.
func maxHeld() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur, math.MaxInt32) / 2)
}

// maxMappings is how many mappings the kernel lets a process have, or its
// default where it doesn't tell.
func maxMappings(root string) int {
	text, err := os.ReadFile(filepath.Join(root, "sys/vm/max_map_count"))
	n, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || err2 != nil || n <= 0 {
		return 65530
	}
	return n
}

// threadTime is the processor time that this thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // never on Linux: every thread has this clock
	}
	return time.Duration(t.Nano())
}

// Close lets go of all processes.
func (c *Collector) Close() error {
	var errs []error
	for _, e := range c.order {
		errs = append(errs, c.drop(e))
	}
	c.order = nil
	return errors.Join(append(errs, c.dir.Close())...)
}

// Collect reads the wanted fields of all processes. The Pass and the
// Processes in it are valid until the next call; Collect is for one goroutine
// at a time. A process that ends meanwhile is left out. What a pass doesn't
// want keeps its last figure and outcome.
func (c *Collector) Collect(want Fields) (*Pass, error) {
	began := c.now()
	var err error
	if c.pids, err = c.dir.PIDs(c.pids[:0]); err != nil {
		return nil, fmt.Errorf("collect processes: %w", err)
	}
	c.match()
	if !c.opts.Budget.bounds() {
		c.readAndWalk(want, began)
	} else {
		c.each(c.order, chunk, func(e *entry) {
			e.alive = c.read(e, want, began)
			c.release(e)
		})
		c.plan(began)
		c.each(c.walks, 1, c.walkOne)
	}
	if want&Memory != 0 {
		c.readSwaps()
	}
	c.finish(began)
	if err := c.failed.Swap(nil); err != nil {
		return nil, fmt.Errorf("collect processes: %w", *err)
	}
	return &c.pass, nil
}

// readAndWalk reads and walks one process after the other, as nothing is to be
// planned: what the kernel knows of a process is in the cache then.
func (c *Collector) readAndWalk(want Fields, at time.Time) {
	c.each(c.order, chunk, func(e *entry) {
		if e.alive = c.read(e, want, at); e.alive && e.wantsWalk {
			e.walk.predict = c.predict(e, at)
			c.walkOne(e)
		}
		if e.alive && e.wantsShared {
			c.shareOf(e)
		}
		c.release(e)
	})
	clear(c.kin)
	c.pass.Walks, c.walks = Walks{}, c.walks[:0]
	for _, e := range c.order {
		if e.wantsWalk {
			c.walks = append(c.walks, e)
		}
	}
}

// shareOf takes Shared from the walk, or from statm where there was none.
func (c *Collector) shareOf(e *entry) {
	if m := &e.p.Memory; e.wantsWalk && e.p.Outcome(Memory) == procfs.Known {
		e.p.Shared = m.Rss - min(m.Anonymous, m.Rss)
		e.set(Shared, nil)
	} else if c.holdAgain(e) {
		e.readShared()
	}
}

// match brings order in line with the PIDs that were listed: both ascend.
func (c *Collector) match() {
	old := c.order
	c.order, c.before = c.before[:0], old
	for _, pid := range c.pids {
		for len(old) > 0 && old[0].p.PID < pid {
			c.forgetEnded(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].p.PID == pid {
			c.order = append(c.order, old[0])
			old = old[1:]
			continue
		}
		e := &entry{}
		e.p.PID = pid
		c.order = append(c.order, e)
	}
	for _, e := range old {
		c.forgetEnded(e)
	}
}

func (c *Collector) forgetEnded(e *entry) {
	c.addKin(e)
	_ = c.drop(e)
}

// chunk is how many processes a worker takes at a time.
const chunk = 8

// each calls fn for all entries, on all workers, which take so many at a time.
func (c *Collector) each(entries []*entry, chunk int, fn func(*entry)) {
	var next atomic.Int64
	work := func() {
		for {
			from := int(next.Add(int64(chunk))) - chunk
			if from >= len(entries) {
				return
			}
			for _, e := range entries[from:min(from+chunk, len(entries))] {
				fn(e)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(c.opts.Workers, (len(entries)+chunk-1)/chunk) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// finish lists what was read and forgets what ended.
func (c *Collector) finish(began time.Time) {
	c.pass.Processes = c.pass.Processes[:0]
	alive := c.order[:0]
	for _, e := range c.order {
		if e.alive {
			c.pass.Processes = append(c.pass.Processes, &e.p)
			alive = append(alive, e)
			continue
		}
		c.forgetEnded(e)
	}
	clear(c.order[len(alive):])
	c.order = alive
	c.sumWalks(began)
	c.pass.At, c.pass.Took = began, c.now().Sub(began)
}
