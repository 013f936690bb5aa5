package blocks

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// A happening is the birth or the end of a block.
type happening struct {
	*analyzer.Life
	at  uint64 // ns since Config.Start; never before that of the one before
	end bool
}

// weight is what the block stands for.
func (h *happening) weight() weight {
	x := h.Others()
	return weight{bytes: h.Size + x.Bytes, count: analyzer.CountUnit + x.Count}
}

// A weight is what a block stands for: in a sample more than itself. Sums of it are those of Reports.
type weight struct {
	bytes uint64
	count uint64 // in units of 1/analyzer.CountUnit
}

// blocks is the count in whole blocks.
func (w weight) blocks() uint64 { return (w.count + analyzer.CountUnit/2) / analyzer.CountUnit }

// A sink is told of a stream.
type sink interface {
	happened(*happening)
	told(in input.Input, at uint64) // after the analyzer was; at is the time so far
}

// A follower goes through a stream once. It is the Observer of an analyzer, and gives what that says to a sink.
type follower struct {
	sink sink
	pid  uint32 // the only one that counts; 0: all do
	now  uint64
	one  happening
}

// follow plays a stream to an analyzer and a sink. The caller closes the analyzer, if there is no error.
func follow(play Source, o Options, to sink) (a *analyzer.Analyzer, end uint64, missing []string, err error) {
	f := &follower{sink: to, pid: o.PID}
	c := o.Config
	c.Observer = f
	a = analyzer.New(c)
	missing, err = play(a, func(in input.Input) {
		f.pass(latest(in, c.Start))
		to.told(in, f.now)
	})
	if err != nil {
		a.Close()
		return nil, 0, nil, fmt.Errorf("play the recording: %w", err)
	}
	return a, f.now, missing, nil
}

// latest is the time that an input tells of, ns since start; 0: it tells of none.
func latest(in input.Input, start uint64) uint64 {
	var at uint64
	switch v := in.(type) {
	case *input.Events:
		if n := len(v.Events); n > 0 {
			at = v.Events[n-1].Time
		}
	case input.Memory:
		at = v.Now
	case input.Instant:
		at = v.Now
	case input.Window:
		at = v.Now
	}
	return at - min(at, start)
}

func (f *follower) pass(at uint64) { f.now = max(f.now, at) }

func (f *follower) Born(l *analyzer.Life)  { f.happened(l, l.Since, false) }
func (f *follower) Ended(l *analyzer.Life) { f.happened(l, l.Ended, true) }

func (f *follower) happened(l *analyzer.Life, at uint64, end bool) {
	if f.pid != 0 && l.PID != f.pid {
		return
	}
	f.pass(at)
	f.one = happening{Life: l, at: f.now, end: end}
	f.sink.happened(&f.one)
}

// execs are the times at which processes replaced their programs, of an input.
func execs(in input.Input, yield func(pid uint32, time uint64)) {
	batch, ok := in.(*input.Events)
	if !ok {
		return
	}
	for i := range batch.Events {
		if e := &batch.Events[i]; e.Kind == event.Exec {
			yield(e.PID, e.Time)
		}
	}
}
