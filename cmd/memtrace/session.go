//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/poolname"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/cmd/memtrace/naming"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/launch"
	"github.com/memtrace/memtrace/tracer/probe"
)

// session ties a tracer, an analyzer and the processes' /proc files together.
// All of it but the attaching of children runs in the goroutine of loop.
type session struct {
	settings
	started     uint64 // ns, CLOCK_MONOTONIC
	fs          procfs.FS
	tracer      *tracer.Tracer
	analyzer    *analyzer.Analyzer
	batch       input.Events // lent to the analyzer, one after the other
	tees        []tee
	recorder    *recorder // one of them; nil: nothing is recorded
	recordError error     // why the recording lacks something; nil: it doesn't
	progress    *progress
	names       *naming.Namer
	pools       poolname.Reader
	tables      *symbol.FileCache
	targets     map[int]*target // the latest of each PID
	endedGaps   endedGaps
	out         output
	listed      int // sites in the Report of an interval; 0: as many as in the last one
	newInterval chan time.Duration
	follower    *follower
	limiter     *limiter // nil without --max-overhead
	losses      losses
	finder      *probe.Finder
	attacher    *attacher
	known       identities
	code        *codeNews

	exits             chan *target // whose process ended
	stopped           chan error   // the result of tracer.Stop
	calls             chan sessionCall
	over              chan struct{}     // closed once no calls are run any more
	watcher           *launch.Watcher   // of processes that were attached to; nil: none
	embedded          scopes            // programs whose built-in suppressions were read
	guarded           map[int]bool      // processes that are held at their first instruction and at execs
	ptraceDetached    map[int]bool      // those of them that were detached from ptrace; see othertracer.go
	ptracedByOther    map[int]bool      // those of them that another tracer has
	unseen            map[fileID]bool   // files of which warnOfUnseen has spoken
	unprobed          map[int]time.Time // children without probes, and since when
	warnedNoAllocator map[string]bool   // programs that were warned of, as they have no allocator
	command           int               // run: the process that we started
	stopping          bool
	timeOver          bool            // that of --duration
	wanted            context.Context // once it has ended, endEarly ends the trace, a leak check too; nil: nothing does
	endEarly          func()
	warnings          []string
	unsaid            unsaidWarnings
	missed            int // children that were not attached to, or ended before

	goWaited     time.Duration // for memory of Go programs that did not come in time
	startPercent int           // how memtrace's own heap grew at first; 0: it still does

	reporting atomic.Uint64 // when the last Report began, ns of CLOCK_MONOTONIC; 0: it has not
	impatient sync.Once     // a signal came long after that

	beforeFinish func() // run: what must be known for the last Report
	exitError    error  // run: why the program's end is not known
}

// newSession loads the tracer. Nothing is probed yet.
func newSession(s settings, out output) (*session, error) {
	fs, err := procfs.New("/proc")
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(fs); err != nil {
		return nil, err
	}
	tables, code := openTableCache(&s), newCodeNews()
	s.tracer.Mapped = code.note
	t, err := tracer.New(s.tracer)
	if err != nil {
		tables.Close()
		return nil, adviseOn(err)
	}
	keepWithin(s.memory)
	started := now()
	x := &session{
		started: started, settings: s, fs: fs, tracer: t, tables: tables, names: naming.New(s.symbols, t.PythonFrame), out: out,
		pools:   poolname.Of(s.functions.Layers()),
		targets: make(map[int]*target), exits: make(chan *target, 16), stopped: make(chan error, 1),
		newInterval: make(chan time.Duration, 1), calls: make(chan sessionCall), over: make(chan struct{}), guarded: make(map[int]bool),
		ptraceDetached: make(map[int]bool), ptracedByOther: make(map[int]bool), unseen: make(map[fileID]bool),
		warnedNoAllocator: make(map[string]bool), unprobed: make(map[int]time.Time), losses: make(losses), code: code,
		finder: probe.NewFinder(fs.Root(), s.functions), attacher: newAttacher(t, fs, s.allocs),
	}
	wrong := x.startAnalyzer()
	x.follower = newFollower(x)
	go x.followCode()
	if wrong != nil {
		x.close()
		return nil, wrong
	}
	if x.limiter, err = newLimiter(s.overhead, t, t.Config().Interval, started); err != nil {
		x.close()
		return nil, err
	}
	x.interrupts.tell(x.signalled)
	return x, nil
}

// attachTarget begins to trace a held process whose objects were found. all says that
// its first instruction is still to come, so that every block will be seen.
func (s *session) attachTarget(t *target, objects []probe.Object, all bool) error {
	if !all {
		t.base = &analyzer.Baseline{}
	}
	known := s.targets[t.pid] == t
	t.goHeap = slices.ContainsFunc(objects, func(o probe.Object) bool { return o.WithGo })
	s.setTarget(t)
	if _, err := s.attacher.extend(t.pid, objects); err != nil {
		if !isGone(err) { // else what it ran had its probes, or it counts as missed
			t.untraced = err
		}
		return err
	}
	s.limiter.attached()
	s.attacher.noteTracing(t.pid, objects, false)
	t.untraced = nil
	if t.loading {
		t.loading, t.unchecked = false, errEndedFirst
	}
	t.objects, t.probed = s.attacher.of(t.pid), now()
	t.noAllocator = len(objects) == 0 // the probes of a program before stay in its files
	t.allocatesNothing = t.allocatesNothing && t.noAllocator
	s.take(input.Started{ProcessInfo: s.describe(t)})
	s.warnOfUnseen(t)
	if !all {
		// Only now: what the process mapped while we attached may hold
		// blocks that were not seen.
		base, err := analyzer.ReadBaseline(t.held.Process)
		if err != nil && !errors.Is(err, procfs.ErrGone) {
			return err
		}
		t.base = base
	}
	if err := s.renew(t); err != nil {
		return err
	}
	if !known {
		go s.awaitExit(t)
	}
	return nil
}

// renew reads what a process has mapped by now, for names.
func (s *session) renew(t *target) error {
	space, err := s.names.Look(s.fs.Root(), t.pid, now(), t.held.Alive)
	if errors.Is(err, symbol.ErrExited) {
		return nil
	}
	if space != nil {
		t.space = space
	}
	return err
}

func (s *session) awaitExit(t *target) {
	if err := t.held.Wait(context.Background()); err == nil {
		s.exits <- t
	}
}

// loop runs the trace until ctx ends, the duration is over or no process is
// left; then it reports for the last time.
func (s *session) loop(ctx context.Context) error {
	ticker, windows := time.NewTicker(s.interval), time.NewTicker(s.window())
	defer ticker.Stop()
	defer windows.Stop()
	startupOver := time.NewTimer(startupTime)
	defer startupOver.Stop()
	var over <-chan time.Time
	if s.duration > 0 {
		timer := time.NewTimer(s.duration)
		defer timer.Stop()
		over = timer.C
	}
	done := ctx.Done()
	for {
		select {
		case b, ok := <-s.tracer.Batches():
			if !ok {
				return s.finish()
			}
			s.consume(b)
		case <-ticker.C:
			s.tick()
		case s.interval = <-s.newInterval:
			ticker.Reset(s.interval)
		case <-windows.C:
			s.take(input.Window{Now: now()})
			s.noteLosses()
			s.limiter.charge(s.targets)
			s.checkChildren()
			s.askJVMs()
			s.nameSome()
			s.checkpoint()
			s.checkFlight()
			s.checkRecording()
			s.showProgress()
		case <-s.limiter.changed():
			s.followLimiter()
		case <-startupOver.C:
			s.keepHeapSmall()
		case <-over:
			s.timeOver = true
			s.checkLeaks()
			s.repairAll()
			s.stop()
		case <-done:
			done = nil
			s.checkLeaks()
			s.repairAll()
			s.stop()
		case t := <-s.exits:
			s.gone(t)
		case v := <-s.calls:
			s.runCall(v)
		case r := <-s.follower.results:
			s.followed(r)
		}
	}
}

// signalled is called at each signal to memtrace, or to the command that it runs, outside of the session's goroutine.
// One that comes during the last Report has that go without further names. One that comes as the Report begins does
// not, whatever ended the trace: who ends a program often ends its tracer right after it.
func (s *session) signalled() {
	s.names.Interrupt()
	began := s.reporting.Load()
	if began == 0 || now() < began+uint64(secondSignalAfter) {
		return
	}
	s.names.Hurry()
	if s.ofCommand { // which has ended: from here on signals are as without one
		s.impatient.Do(func() { go endAtSecondSignal() })
	}
}

// stop ends the trace at this instant. What came before is still consumed.
func (s *session) stop() {
	if s.stopping {
		return
	}
	s.stopping = true
	s.limiter.end()
	go func() { s.stopped <- s.tracer.Stop() }()
}

func (s *session) consume(b *tracer.Batch) {
	for _, stack := range b.Stacks {
		s.take(input.Stack{Stack: stack})
		s.out.stack(stack)
	}
	for _, e := range b.Life {
		s.follower.notice(e)
	}
	s.apply(b.Events)
	s.out.events(b.Events)
	for i := range b.Events {
		switch e := &b.Events[i]; e.Kind {
		case event.Fork:
			s.forked(*e)
		case event.Exec:
			s.follower.execed(*e)
		case event.Exit:
			s.noticeExit(*e)
			s.childEnded(*e)
		}
	}
	b.Release()
}

// ended lets go of a target that has ended.
func (s *session) ended(t *target) {
	if t.exited || s.targets[t.pid] != t { // what there is by its PID is another's
		return
	}
	t.exited = true
	s.forget(t.pid)
	switch {
	case (t.child || s.lasts) && !s.leaks:
		s.release(t)
		delete(s.targets, t.pid)
	case t.child:
		t.close() // it is kept for what is to be said of it, and there may be thousands
	}
	if s.lasts {
		return
	}
	for _, other := range s.targets {
		if !other.exited {
			return
		}
	}
	s.stop()
}

// windowInterval is the step of the sites' series, in which growth is looked
// for: short, so that some seconds of trace hold enough steps to tell.
const windowInterval = 250 * time.Millisecond

// window is that step in this session: one that lasts has time.
func (s *session) window() time.Duration {
	if s.lasts {
		return 4 * windowInterval
	}
	return windowInterval
}

// tick correlates with /proc and shows a Report, which costs as much as all else
// where there are many sites: not where nobody looks at it.
func (s *session) tick() {
	flight := s.flight()
	reports := s.out.wantsIntervals() || s.gate.active() || flight.needsReports()
	s.walkAll(func(t *target) bool { return t.walkPace.Ready(time.Now()) && (reports || !t.walked) })
	s.correlate(false)
	if reports {
		r := s.report(false)
		s.out.interval(r)
		if flight.needsReports() {
			flight.want(flight.freezer.observe(r)...)
		}
		return
	}
	s.noteLosses() // so that they are known by time
	s.pressure()
}

// correlate reads where the targets' memory is; final readings are never put off.
func (s *session) correlate(final bool) {
	for _, t := range s.targets {
		if t.exited || t.shared {
			continue
		}
		s.reattach(t)
		if !final && !t.pace.Ready(time.Now()) {
			continue
		}
		s.correlateTarget(t)
		if !final { // nothing is attached to any more
			s.follower.rescan(t)
		}
	}
}

func (s *session) correlateTarget(t *target) {
	t.sampler.Touching = s.limiter.hasTouched()
	cost, err := t.sampler.Sample(s.analyzer, t.held.Process, t.base, now(), s.take)
	if err != nil && !errors.Is(err, procfs.ErrGone) {
		s.warn("%v", err)
	}
	t.pace.Done(time.Now(), cost)
	s.readGoHeap(t)
	if t.space == nil && t.usesParentNames() {
		return // it has its parent's names, and may be about to execute a program
	}
	if err = s.renew(t); err != nil {
		s.warn("%v", err)
	}
	if t.space != nil {
		s.nameUnmapped(t)
	}
}

// nameUnmapped names the stacks through libraries that a process has unmapped:
// others may be mapped there later.
func (s *session) nameUnmapped(t *target) {
	if gone := t.space.Unmapped(); gone != nil {
		s.nameStacks(s.analyzer.UnnamedOf(uint32(t.pid), gone))
	}
}

// reattach attaches again to a process whose first thread has ended, as the
// probes were tied to that.
func (s *session) reattach(t *target) {
	if t.probesLost || t.noAllocator || s.stopping {
		return
	}
	reattached, err := s.tracer.Reattach(t.pid, s.attacher.chosen(t.pid, t.objects))
	if err != nil && !reattached {
		if !t.held.Alive() {
			return
		}
		t.probesLost = true
		s.warn("the thread that the probes of process %d were tied to has ended, and nothing more is seen of the others' allocations: %v", t.pid, err)
		return
	}
	if reattached {
		s.warn("the thread that the probes of process %d were tied to ended; they are on another one now. What the process allocated and freed meanwhile, for up to %v, may not have been seen: blocks that were freed then still show as live", t.pid, s.interval)
	}
	if err != nil {
		s.warn("%v: process %d may not be checked as it exits or executes another program", err, t.pid)
	}
}

func (s *session) report(final bool) *report.Report {
	s.followLimiter()
	loss, err := s.tracer.Loss()
	if err != nil {
		s.warn("%v", err)
	}
	s.take(input.Loss{Loss: loss})
	s.noteLosses()
	for _, note := range s.attacher.noted() {
		s.warn("%s", note)
	}
	pressure := s.pressure()
	top := s.top
	if !final && top > 0 {
		top = max(top, s.listed)
	}
	if final && (s.gate.exports.wanted() || s.recorder != nil) {
		top = 0 // what is shown is limited in finish
	}
	o := analyzer.ReportOptions{Final: final, Top: top, Sort: s.sort, By: s.by}
	if !final {
		o.EndedAt = s.out.endedAt()
	}
	r := s.reportOf(o)
	r.Made = madeNow(s.commands)
	r.Tracer.Tables, r.Tracer.Source = s.tracer.TableMemory()
	r.Overhead, r.Pressure = s.limiter.report(), pressure
	r.Warnings = append(r.Warnings, s.limiter.warnings()...)
	r.Warnings = append(r.Warnings, s.warnings...)
	r.Warnings = append(r.Warnings, s.unsaid.texts()...)
	r.Warnings = append(r.Warnings, s.names.Warnings()...)
	r.Warnings = append(r.Warnings, s.tracer.UnwindProblems()...)
	r.Warnings = append(r.Warnings, s.tracer.PythonProblems()...)
	r.Warnings = append(r.Warnings, s.missedChildren()...)
	if err := s.attacher.loaderProblem(); err != nil {
		r.Warnings = append(r.Warnings, err.Error()+": what a library allocates right after it was loaded may have a cut stack")
	}
	r.Warnings = append(r.Warnings, s.unreadFiles()...)
	if final {
		r.Warnings = append(r.Warnings, s.unseenFunctions()...)
		r.Notes = append(r.Notes, s.namesOfCompiled(r)...)
		r.Warnings = append(r.Warnings, s.unseenLeaks(r)...)
		r.Warnings = append(r.Warnings, s.uncheckedLeaks()...)
	}
	if !final {
		s.gate.hide(r)
		s.gate.observe(r)
	}
	if s.recorder != nil {
		s.recorder.shown(r)
	}
	return r
}

// drain handles what other goroutines have found already, before the last Report: that a child
// runs without its probes, say.
func (s *session) drain() {
	for {
		select {
		case r := <-s.follower.results:
			s.followed(r)
		case t := <-s.exits:
			s.gone(t)
		default:
			return
		}
	}
}

// finish reports once all events are in.
func (s *session) finish() error {
	close(s.over)
	s.drain()
	s.followPause()
	s.letHeapGrow()
	if s.beforeFinish != nil {
		s.beforeFinish()
	}
	s.reporting.Store(now())
	s.correlate(true)
	s.askJVMsLast()
	r := s.report(true)
	s.gate.conclude(r, s.leaks, s.problems())
	s.gate.exports.keep(r, s.top)
	s.endRecording(r)
	err := s.out.final(r)
	if stopErr := <-s.stopped; stopErr != nil {
		s.warn("%v", stopErr)
	}
	return err
}

// warn reports a problem once, on stderr and in the Reports.
func (s *session) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case slices.Contains(s.warnings, text):
		return
	case len(s.warnings) < maxWarnings:
		s.warnings = append(s.warnings, text)
	default:
		if !s.unsaid.add(text) {
			return
		}
		text = fmt.Sprintf("there were %d warnings: further ones are counted, and not shown", maxWarnings)
	}
	s.out.warning(text)
}

func (s *session) say(format string, args ...any) {
	if s.verbose {
		fmt.Fprintf(os.Stderr, "memtrace: %s\n", render.Clean(fmt.Sprintf(format, args...)))
	}
}

func (s *session) close() {
	s.interrupts.tell(nil)
	s.limiter.end()
	s.watcher.Close()
	if s.recorder != nil {
		if err := s.recorder.close(nil); err != nil { // it ended before the last Report
			fmt.Fprintf(os.Stderr, "memtrace: %v\n", err)
		}
	}
	if err := s.tracer.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "memtrace: %v\n", err)
	}
	for _, t := range s.targets {
		t.close()
	}
	s.attacher.close()
	s.tables.Close()
	s.names.Close()
	s.analyzer.Close()
}

// openTableCache lets the tracer keep its unwinding tables beside the names.
// Where that can't be, the resolver has the reason in its warnings.
func openTableCache(s *settings) *symbol.FileCache {
	if s.symbols.Cache == "" {
		return nil
	}
	c, err := symbol.OpenTableCache(s.symbols.Cache)
	if err != nil {
		return nil
	}
	s.tracer.TableCache = c
	return c
}

// now is CLOCK_MONOTONIC in ns, the clock of the events.
func now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("read CLOCK_MONOTONIC: " + err.Error()) // it always exists
	}
	return uint64(ts.Nano())
}
