package agent

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
	"github.com/memtrace/memtrace/procfs/machine"
)

// Options of an Agent.
type Options struct {
	ConfigFile string // read again when it changes; "" for none
	Listen     string // instead of the file's, if not empty
	Data       string // likewise
	Version    string
	Log        *log.Logger // what goes wrong, a line each
	// Ready is called once there are figures and somebody answers at an address.
	Ready func(address string)
	// Alive is called after each pass.
	Alive func()
	// Lacks says which rights to trace in full are missing, "" where none are; nil: nobody can say.
	Lacks func() string
}

// Agent collects and serves.
type Agent struct {
	opt       Options
	log       *log.Logger
	config    atomic.Pointer[Config]
	latest    atomic.Pointer[Snapshot]
	own       own
	collector *collect.Collector
	machine   *machine.Reader
	book      *book
	file      fileState
	audit     *audit
	watches   watches
	alerts    alerts
	traces    *traces
	profiles  slots  // that are being made
	deltas    slots  // that are under way
	pasts     slots  // recordings that are being read
	webConfig string // that the server goes by until its end, whatever a later configuration names

	meminfo, vmstat procfs.Counters
}

// New reads the configuration and opens /proc. The caller runs the Agent, or closes it.
func New(opt Options) (*Agent, error) {
	a := &Agent{
		opt: opt, log: opt.Log, book: newBook(), audit: newAudit(opt.Log),
		profiles: make(slots, maxProfiles), deltas: make(slots, maxDeltas), pasts: make(slots, maxPasts),
	}
	c, err := a.readConfig()
	if err != nil {
		return nil, err
	}
	a.config.Store(&c)
	a.traces = newTraces(a.log, a.traceService)
	a.warnOf(&c)
	a.own.reloaded(true)
	a.alerts.prepare(a, &c)
	if err := a.watches.prepare(a, &c); err != nil {
		return nil, err
	}
	if a.machine, err = machine.Open("/proc", "/sys"); err != nil {
		a.watches.history.close()
		return nil, err
	}
	if a.collector, err = openCollector(&c); err != nil {
		a.watches.history.close()
		return nil, errors.Join(err, a.machine.Close())
	}
	return a, nil
}

func openCollector(c *Config) (*collect.Collector, error) {
	budget := collect.DefaultBudget()
	budget.Stall = c.StallBudget
	budget.MaxAge = max(budget.MaxAge, 6*c.Interval)
	return collect.Open(collect.Options{Workers: 1, RefreshEvery: max(10*time.Second, 6*c.Interval), Budget: budget})
}

// Close ends the tracers, and lets go of all processes.
func (a *Agent) Close() error {
	a.alerts.close()
	a.endTracers()
	a.watches.close()
	return errors.Join(a.collector.Close(), a.machine.Close())
}

// Run collects and serves until ctx ends. Reload asks for the configuration to be read again.
func (a *Agent) Run(ctx context.Context, reload <-chan os.Signal) error {
	server, err := a.listen()
	if err != nil {
		return err
	}
	defer server.close()
	defer a.endTracers()
	a.alerts.start(a.config.Load(), server.address)
	if err := a.collect(); err != nil {
		return err
	}
	served := server.start()
	a.opt.Ready(server.address)
	interval := a.config.Load().Interval
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case <-reload:
			a.reload()
		case <-ticker.C:
			a.reloadIfChanged()
			if err := a.collect(); err != nil {
				a.own.errors.Add(1)
				a.log.Printf("%v", err)
			}
		}
		if is := a.config.Load().Interval; is != interval {
			interval = is
			ticker.Reset(interval)
		}
		a.opt.Alive()
	}
}

// endTracers ends all tracers at once, and returns when they have ended.
func (a *Agent) endTracers() {
	a.traces.close()
	a.watches.stop()
	a.traces.wait()
}

// collect makes a pass and publishes what it found.
func (a *Agent) collect() error {
	pass, err := a.collector.Collect(collect.User | collect.Cmdline | collect.Cgroup | collect.Shared | collect.Memory)
	if err != nil {
		return err
	}
	s := &Snapshot{At: pass.At, Took: pass.Took}
	s.Services, s.Omitted = a.book.take(a.config.Load(), pass)
	for i := range s.Services {
		s.Processes += s.Services[i].Processes
	}
	s.Machine, s.Problems = a.readMachine(pass)
	a.own.passed(pass)
	a.latest.Store(s)
	a.watches.update(a.config.Load(), a.book, pass.At)
	a.watches.prune(a.config.Load(), time.Now())
	changes := a.alerts.check(a.figures(s))
	a.traces.take(changes, s.At, a.book.named)
	a.traces.step(s.At, a.book.processes)
	return nil
}

// warnOf names rules by which any user can have their processes traced as another's, and rights that are missing.
func (a *Agent) warnOf(c *Config) {
	for i := range c.Services {
		if r := &c.Services[i]; r.anybodys() && (r.Growth || c.tracesOf(r.Name)) {
			a.log.Printf("warning: rule %s: every user can call a process so, and have it traced in place of the "+
				"service's: add user, unit, container or cgroup", r.Name)
		}
	}
	if a.opt.Lacks == nil || !c.traces() {
		return
	}
	if lacks := a.opt.Lacks(); lacks != "" {
		a.log.Printf("warning: alerts ask for traces, which will fail: %s: packaging/systemd/memtrace-trace.conf has what they take",
			lacks)
	}
}

// fileState tells whether the configuration has changed.
type fileState struct {
	size    int64
	changed time.Time
}

func (a *Agent) readConfig() (Config, error) {
	c := Default()
	if a.opt.ConfigFile != "" {
		a.file = stateOf(a.opt.ConfigFile)
		var err error
		if c, err = ReadConfig(a.opt.ConfigFile); err != nil {
			return Config{}, err
		}
	}
	if a.opt.Listen != "" {
		c.Listen = a.opt.Listen
	}
	if a.opt.Data != "" {
		c.Data = a.opt.Data
	}
	return c, c.check()
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{} // a file that is gone is told apart from what it was
	}
	return fileState{info.Size(), info.ModTime()}
}

func (a *Agent) reloadIfChanged() {
	if a.opt.ConfigFile != "" && stateOf(a.opt.ConfigFile) != a.file {
		a.reload()
	}
}

// reload takes a new configuration over. A bad one leaves the old in force.
func (a *Agent) reload() {
	c, err := a.readConfig()
	was := a.config.Load()
	var collector *collect.Collector
	if err == nil {
		err = a.watches.prepare(a, &c)
	}
	if err == nil && c.StallBudget != was.StallBudget {
		collector, err = openCollector(&c)
	}
	a.own.reloaded(err == nil)
	if err != nil {
		a.log.Printf("the configuration stays as it was: %v", err)
		return
	}
	if collector != nil {
		if err := a.collector.Close(); err != nil {
			a.log.Printf("%v", err)
		}
		a.collector = collector
	}
	if c.Listen != was.Listen || c.WebConfig != was.WebConfig || c.Data != was.Data {
		a.log.Printf("listen, web_config and data take effect at the next start")
	}
	a.config.Store(&c)
	a.warnOf(&c)
	a.alerts.reload(&c, time.Now())
	a.traces.reload(c.Alerts, time.Now())
	a.log.Printf("configuration read: %s", rules(len(c.Services)))
}

func rules(n int) string {
	if n == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", n)
}
