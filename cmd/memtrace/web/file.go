package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/timeline"
)

// A File is a recording or a saved Report that is shown. It may be asked by many goroutines.
type File struct {
	name  string
	note  string            // what was wrong with it
	last  *report.Report    // a saved Report, or the last one that the recording has; nil: it has none that can be read
	head  *recording.Header // nil: a saved Report
	f     *os.File          // of a recording
	size  int64             // as it was opened
	start uint64            // ns, CLOCK_MONOTONIC
	end   uint64            // ns since start
	rooms recording.Rooms   // of one analyzer
	sort  string            // of sites
	saved *recording.Savepoints
}

// savepointEvents is how many events there are between two Savepoints at least: they are played in 0.1 s or so.
const savepointEvents = 1 << 18

// Open reads a file that was opened, which it keeps until the program's end where that is a recording.
func Open(name string, f *os.File, share Shares, sort string) (*File, error) {
	var begin [8]byte
	n, _ := f.ReadAt(begin[:], 0)
	saved := recording.NewSavepoints(share.Savepoints, savepointEvents)
	out := &File{name: name, f: f, rooms: share.rooms(), sort: sort, saved: saved}
	var err error
	if !recording.Is(begin[:n]) {
		if out.last, out.note, err = export.Read(bufio.NewReader(f), share.Report); err != nil {
			return nil, err
		}
		out.end = out.last.WindowNS
		return out, nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	out.size = info.Size()
	r, err := out.reader(nil)
	if err != nil {
		return nil, err
	}
	head := *r.Header()
	first, last := r.Span()
	out.head, out.start, out.end = &head, first, last-first
	if !r.Closed() {
		out.note = "the recording was cut, or is still being written: what comes later is not shown"
	}
	if text, ok := r.Stored(); ok {
		if out.last, _, err = export.Read(bytes.NewReader(text), share.Report); err != nil {
			out.note = fmt.Sprintf("its last Report is made again: %v", err)
		}
	}
	return out, nil
}

var errNoRecording = errors.New("a saved Report is of one time, and has no single blocks: memtrace record -o FILE makes recordings")

// recorded says that the file is a recording.
func (f *File) recorded() bool { return f.head != nil }

// reader reads the recording.
func (f *File) reader(watch func(float64) error) (*recording.Reader, error) {
	r, err := recording.Open(f.f, f.size)
	if err != nil {
		return nil, err
	}
	r.Watch, r.Savepoints = watch, f.saved
	return r, nil
}

// report makes the Report of an instant, ns since the start.
func (f *File) report(at uint64, watch func(float64) error) (*report.Report, error) {
	r, err := f.reader(watch)
	if err != nil {
		return nil, err
	}
	out, _, err := r.ReportAt(f.start+at, f.rooms, analyzer.ReportOptions{Final: true, Sort: f.sort})
	return out, err
}

// timeline makes the timeline of a span.
func (f *File) timeline(o timeline.Options, watch func(float64) error) (*timeline.Timeline, error) {
	r, config, err := f.play(watch)
	if err != nil {
		return nil, err
	}
	return timeline.Make(timeline.Source{Config: config, End: f.end, Play: func(a *analyzer.Analyzer, until uint64, told func(input.Input)) ([]string, error) {
		return r.Play(a, until, told)
	}}, o)
}

// query answers a query.
func (f *File) query(q *query.Query, o query.Options, watch func(float64) error) (*query.Result, error) {
	r, config, err := f.play(watch)
	if err != nil {
		return nil, err
	}
	return query.Run(query.Source{Config: config, End: f.end, Play: func(a *analyzer.Analyzer, from, until uint64) ([]string, error) {
		return r.PlayFrom(a, from, until, nil)
	}}, q, o)
}

func (f *File) play(watch func(float64) error) (*recording.Reader, analyzer.Config, error) {
	r, err := f.reader(watch)
	if err != nil {
		return nil, analyzer.Config{}, err
	}
	config, err := f.head.Config.Analyzer(f.rooms.Sites, f.rooms.Blocks)
	return r, config, err
}

// began is when the recording began.
func (f *File) began() time.Time {
	if f.head == nil {
		return time.Time{}
	}
	return f.head.Time(f.start)
}
