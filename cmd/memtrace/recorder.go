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
		if r.err = r.file.begin(); r.err == nil {
			r.writer, r.err = recording.NewWriter(r.file, r.header, r.file.options)
		}
	}
	if v, ok := in.(input.Instant); ok {
		r.at = v.Now
	}
	if r.writer != nil && !r.closed {
		r.writer.Take(in)
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
	if r.writer == nil {
		r.file.abandon()
		return r.failure(r.err)
	}
	var err error
	if last != nil {
		err = r.writer.Report(r.at, last)
	}
	slow := time.AfterFunc(3*time.Second, func() {
		fmt.Fprintf(os.Stderr, "memtrace: still writing %s, as its disk is slow; the trace is over. A signal more ends memtrace without the rest\n", render.Clean(r.file.path))
	})
	defer slow.Stop()
	return r.failure(errors.Join(err, r.writer.Close()))
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
		r.asked[q.Stack] = true
		s.nameStacks([]analyzer.UnnamedStack{q})
	}
	r.nextAsk = time.Now().Add(max(nameEvery, 100*time.Since(began)))
}
