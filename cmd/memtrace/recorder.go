//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// A recorder is the tee that writes a session's recording. It begins the file with the first input, so that a trace
// that can't begin leaves what was there.
type recorder struct {
	file    *recordingFile
	header  recording.Header
	writer  *recording.Writer // nil: nothing came yet
	err     error             // why nothing is recorded
	at      uint64            // of the last Instant
	own     int               // the analyzer's warnings in the Report that was made last
	told    recording.Status  // what was said of the writing
	closed  bool
	asked   map[uint64]bool // stacks that nameSome has asked for
	nextAsk time.Time
	keeps   *recording.DiskRing // of --keep; nil: all of the recording lasts
	flight  *flight             // of --flight; nil likewise
	turned  error               // what was said of a file that does not turn
}

// newRecorder makes the recorder of a session that begins now.
func newRecorder(f *recordingFile, c analyzer.Config, wrappers []string) *recorder {
	h := recording.Header{
		Version: version, Arch: runtime.GOARCH, Config: recording.ConfigOf(c, wrappers),
		Clock: recording.Clock{Wall: time.Now().UnixNano(), Monotonic: now()},
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil {
		h.Host, h.Kernel = unix.ByteSliceToString(uts.Nodename[:]), unix.ByteSliceToString(uts.Release[:])
	}
	if f.commands {
		h.Command = os.Args
	}
	return &recorder{file: f, header: h, asked: make(map[uint64]bool), nextAsk: time.Now().Add(nameEvery)}
}

// Take records an input.
func (r *recorder) Take(in input.Input) {
	if r.writer == nil && r.err == nil {
		r.err = r.begin()
	}
	if v, ok := in.(input.Instant); ok {
		r.at = v.Now
	}
	if r.writer != nil && !r.closed {
		r.writer.Take(in)
	}
}

// begin begins to write: to the file, to a ring in it, or to one in memory.
func (r *recorder) begin() (err error) {
	options := r.file.options
	if r.flight != nil {
		options.MaxSize = 0 // it bounds the memory
		r.writer, err = recording.NewWriter(r.flight.ring, r.header, options)
		return err
	}
	if err := r.file.begin(); err != nil {
		return err
	}
	var to recording.File = r.file
	if keep := r.file.last.keep; keep > 0 {
		r.keeps = recording.NewDiskRing(r.file, uint64(keep), r.file.turning())
		to = r.keeps
	}
	r.writer, err = recording.NewWriter(to, r.header, options)
	return err
}

// checkpoint has what lives written, where the recording is a ring and it is time for that.
func (s *session) checkpoint() {
	r, at := s.recorder, now()
	switch {
	case r == nil || r.writer == nil || r.closed:
		return
	case r.keeps != nil && r.keeps.WantsCheckpoint(at), r.flight != nil && r.flight.ring.WantsCheckpoint(at):
		pressed := r.flight != nil && r.flight.ring.IsPressed()
		r.writer.Checkpoint(at, pressed, func() *analyzer.Checkpoint { return s.analyzer.Checkpoint(at) })
	}
}

// Reported notes which warnings are the analyzer's.
func (r *recorder) Reported(_ analyzer.ReportOptions, rep *report.Report) { r.own = len(rep.Warnings) }

// shown records what the session has added to the Report that was made last.
func (r *recorder) shown(rep *report.Report) {
	if r.writer != nil && !r.closed {
		r.writer.Shown(r.at, rep, r.own)
	}
}

// close ends the recording with the last Report, nil if there is none.
func (r *recorder) close(last *report.Report) error {
	if r.closed {
		return nil
	}
	r.closed = true
	if r.flight != nil {
		defer r.flight.close()
	}
	if r.writer == nil {
		r.file.abandon()
		return r.failure(r.err)
	}
	var err error
	if last != nil && r.flight == nil {
		err = r.writer.Report(r.at, last)
	}
	slow := time.AfterFunc(3*time.Second, func() {
		fmt.Fprintf(os.Stderr, "memtrace: still writing %s, as its disk is slow; the trace is over. A signal more ends memtrace without the rest\n", render.Clean(r.file.path))
	})
	defer slow.Stop()
	err = errors.Join(err, r.writer.Close())
	if r.flight != nil {
		return r.err // which names its files
	}
	return r.failure(err)
}

func (r *recorder) failure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("record to %s: %w", r.file.path, err)
}

// status is how the writing goes.
func (r *recorder) status() recording.Status {
	if r.writer == nil {
		return recording.Status{Err: r.err}
	}
	return r.writer.Status()
}

// checkRecording says at once when something is not recorded.
func (s *session) checkRecording() {
	if s.recorder == nil {
		return
	}
	r, status := s.recorder, s.recorder.status()
	switch {
	case status.Err != nil && r.told.Err == nil:
		s.warn("record to %s: %v: nothing is recorded from now on, and the trace goes on", r.file.path, status.Err)
	case status.Err == nil && status.LeftOutBlocks > r.told.LeftOutBlocks:
		s.warn("record to %s: the disk is too slow for what comes, and parts are left out; the recording says which", r.file.path)
	}
	r.told = status
	if r.keeps == nil {
		return
	}
	if err := r.keeps.Err(); err != nil && r.turned == nil {
		s.warn("record to %s: what is older than %v can't be let go, and the file grows: %v", r.file.path, r.file.last.keep, err)
		r.turned = err
	}
}

// size is what the recording takes now, in its file or in memory.
func (r *recorder) size() int64 {
	switch {
	case r.keeps != nil:
		return r.keeps.Size()
	case r.flight != nil:
		return r.flight.ring.Size()
	}
	return r.status().Bytes
}

// nameEvery is how often stacks are named for the recording alone, and nameTime for how long: the names of code that
// is gone by the trace's end are had, and a memtrace that is killed leaves most of them.
const (
	nameEvery = 10 * time.Second
	nameTime  = 50 * time.Millisecond
	maxAsked  = 1 << 20
)

// nameSome names stacks that no Report has shown yet.
func (s *session) nameSome() {
	r := s.recorder
	if r == nil || r.closed || time.Now().Before(r.nextAsk) {
		return
	}
	began := time.Now()
	for _, q := range s.analyzer.Unnamed(analyzer.ReportOptions{}) {
		if r.asked[q.Stack] {
			continue
		}
		if time.Since(began) > nameTime || len(r.asked) >= maxAsked {
			break
		}
		r.asked[q.Stack] = !s.names.MayNameLater(q.PID)
		s.nameStacks([]analyzer.UnnamedStack{q})
	}
	r.nextAsk = time.Now().Add(max(nameEvery, 100*time.Since(began)))
}
