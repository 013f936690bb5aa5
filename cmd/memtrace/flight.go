//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// maxFrozen bounds the files of one flight: a condition may be met again and again.
const maxFrozen = 9

// A flight is the flight recorder of a session. All of it but write is for the goroutine of loop.
type flight struct {
	recorder *recorder
	ring     *recording.MemoryRing
	freezer  *freezeWatch
	signals  chan os.Signal // SIGUSR1
	why      []string       // it is to be frozen
	frozen   int            // files so far
	full     bool           // it was said that there are no more

	writing sync.WaitGroup
	mu      sync.Mutex
	said    []string // what came of the writing
	failed  error
}

// newFlight makes the flight recorder of a recorder; nil, if none is asked for.
func newFlight(r *recorder, warmUp time.Duration) (*flight, error) {
	last := &r.file.last
	if last.flight == 0 {
		return nil, nil
	}
	x, err := newFreezeWatch(last.freezeOn, warmUp)
	if err != nil {
		return nil, err
	}
	f := &flight{recorder: r, ring: recording.NewMemoryRing(uint64(last.flight), last.room), freezer: x, signals: make(chan os.Signal, 1)}
	signal.Notify(f.signals, unix.SIGUSR1)
	return f, nil
}

// needsReports reports whether conditions are decided by Reports.
func (f *flight) needsReports() bool { return f != nil && f.freezer.rules > 0 }

// want has the flight frozen soon.
func (f *flight) want(why ...string) {
	for _, text := range why {
		if !slices.Contains(f.why, text) {
			f.why = append(f.why, text)
		}
	}
}

// noticeExit freezes at the end of a process by a signal. Children that are told to end, or write to a closed pipe, are
// the usual course of things.
func (s *session) noticeExit(e event.Event) {
	f, sig := s.flight(), unix.Signal(e.Size&0x7f)
	t := s.targets[int(e.PID)]
	if f == nil || sig == 0 || t == nil {
		return
	}
	if t.child && slices.Contains([]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE, unix.SIGQUIT}, sig) {
		return
	}
	info, _ := s.analyzer.Info(e.PID)
	f.want(fmt.Sprintf("process %d (%s) was killed by %s", e.PID, info.Comm, unix.SignalName(sig)))
}

func (s *session) flight() *flight {
	if s.recorder == nil {
		return nil
	}
	return s.recorder.flight
}

// checkFlight looks whether the flight is to be frozen, and does so. Conditions of the machine are looked at each time.
func (s *session) checkFlight() {
	f := s.flight()
	if f == nil || s.recorder.writer == nil || s.recorder.closed {
		return
	}
	select {
	case <-f.signals:
		f.want("SIGUSR1")
	default:
	}
	f.want(f.freezer.check()...)
	f.want(f.freezer.outOfMemory(s.groups)...)
	f.tell(s)
	if len(f.why) > 0 && !s.stopping { // else the last Report comes first, with all names
		s.nameForFlight()
		f.freeze()
	}
}

// groups are the control groups of the traced processes.
func (s *session) groups() (out []string) {
	const most = 16
	for _, t := range s.targets {
		if group, err := t.held.Cgroup(); err == nil && !slices.Contains(out, group) && len(out) < most {
			out = append(out, group)
		}
	}
	return out
}

// flightNameTime bounds how long names are looked for before a flight is frozen, while events wait.
const flightNameTime = 500 * time.Millisecond

// nameForFlight names the stacks of what lives, those of the most bytes first.
func (s *session) nameForFlight() {
	began := time.Now()
	for _, q := range s.analyzer.Unnamed(analyzer.ReportOptions{}) {
		if time.Since(began) > flightNameTime {
			return
		}
		s.nameStacks([]analyzer.UnnamedStack{q})
	}
}

// freeze writes what there is now to the next file, in a goroutine of its own.
func (f *flight) freeze() {
	why := strings.Join(f.why, "; ")
	f.why = nil
	if f.frozen == maxFrozen {
		if !f.full {
			f.full = true
			f.say(fmt.Sprintf("%s: the flight was frozen %d times already, and is not any more", why, maxFrozen))
		}
		return
	}
	f.frozen++
	n := f.frozen
	f.writing.Add(1)
	f.recorder.writer.After(func() {
		frozen, err := f.ring.Freeze()
		go func() {
			defer f.writing.Done()
			f.write(n, frozen, err, why)
		}()
	})
}

func (f *flight) write(n int, frozen *recording.Frozen, err error, why string) {
	file := f.recorder.file
	if n > 1 {
		file = file.of(numbered(file.path, n))
	}
	var size int64
	if err == nil {
		size, err = writeFrozen(file, frozen)
	}
	if err != nil {
		err = fmt.Errorf("write the flight to %s: %w (it was to be frozen, as %s)", file.path, err, why)
		f.mu.Lock()
		f.failed = errors.Join(f.failed, err)
		f.mu.Unlock()
		return
	}
	h := &f.recorder.header
	span := fmt.Sprintf("the last %v", time.Duration(frozen.To-frozen.From).Round(time.Second/10))
	switch {
	case frozen.From == 0:
		span = fmt.Sprintf("all %v since the trace began", time.Duration(frozen.To-min(frozen.To, h.Config.Start)).Round(time.Second/10))
	case frozen.Short:
		span += fmt.Sprintf(", not %v, as %s of memory hold no more (--max-size)", f.recorder.file.last.flight, report.HumanBytes(float64(f.recorder.file.last.room)))
	}
	f.say(fmt.Sprintf("%s: wrote %s to %s (%s): memtrace report %[3]s shows what lived", why, span, file.path, report.HumanBytes(float64(size))))
}

// writeFrozen writes a whole file.
func writeFrozen(file *recordingFile, frozen *recording.Frozen) (n int64, err error) {
	if file.file == nil {
		if err := file.open(); err != nil {
			return 0, err
		}
	}
	if err := file.begin(); err != nil {
		return 0, err
	}
	n, err = frozen.WriteTo(file)
	if err == nil {
		err = file.Sync()
	}
	return n, errors.Join(err, file.Close())
}

// numbered is app.2.memtrace for the second file of app.memtrace.
func numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "." + strconv.Itoa(n) + ext
}

func (f *flight) say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, text)
}

// tell prints what has come of the writing.
func (f *flight) tell(s *session) {
	f.mu.Lock()
	said, failed := f.said, f.failed
	f.said, f.failed = nil, nil
	f.mu.Unlock()
	for _, text := range said {
		s.progress.clear()
		fmt.Fprintf(os.Stderr, "memtrace: %s\n", render.CleanLines(text))
	}
	if failed != nil {
		s.warn("%v", failed)
		f.recorder.err = errors.Join(f.recorder.err, failed)
	}
}

// end freezes what is still to be frozen, and waits for all files.
func (f *flight) end(s *session) {
	f.want(f.freezer.outOfMemory(s.groups)...)
	if len(f.why) > 0 {
		f.freeze()
	}
	f.writing.Wait()
	f.tell(s)
	if f.frozen == 0 {
		fmt.Fprintf(os.Stderr, "memtrace: nothing has frozen the flight recorder: %s was not written\n", render.Clean(f.recorder.file.path))
	}
}

func (f *flight) close() {
	signal.Stop(f.signals)
	f.freezer.close()
	f.recorder.file.abandon()
}
