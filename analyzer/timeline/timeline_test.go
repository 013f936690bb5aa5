package timeline

import (
	"fmt"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

const (
	begin = 5_000_000_000
	ms    = 1_000_000
)

// memoryOf is a reading of a process whose memory is live heap and files.
func memoryOf(pid uint32, at, heap, file uint64) input.Memory {
	return input.Memory{PID: pid, Now: begin + at, Usage: input.Usage{RSS: heap + file}, RSSBy: input.RSSBy{HeapLive: heap, File: file}}
}

func eventAt(at uint64, pid uint32, kind event.Kind, more event.Event) *input.Events {
	more.Time, more.PID, more.TID, more.Kind = begin+at, pid, pid, kind
	return &input.Events{Events: []event.Event{more}}
}

// two is a trace of a second: 1 allocates a block of 100 bytes each 100 ms, and frees one; 2 comes, and exits at 600 ms.
func two() Source {
	inputs := []input.Input{
		input.Started{ProcessInfo: input.ProcessInfo{PID: 1, Comm: "one", Allocators: []string{"glibc libc.so.6"}}},
		input.Stack{Stack: event.Stack{ID: 1, PID: 1, Frames: []uint64{7}}},
		memoryOf(1, 0, 1000, 500),
		input.Started{ProcessInfo: input.ProcessInfo{PID: 2, Comm: "two", Allocators: []string{"glibc libc.so.6"}}},
	}
	for i := range uint64(10) {
		inputs = append(inputs, eventAt(i*100*ms, 1, event.Alloc, event.Event{Addr: 0x1000 + i*0x100, Size: 100, Stack: 1}))
		switch i {
		case 2:
			inputs = append(inputs, memoryOf(2, 210*ms, 7000, 1), memoryOf(1, 220*ms, 10, 20), eventAt(230*ms, 1, event.Fault, event.Event{Addr: 0x1000}))
		case 4:
			inputs = append(inputs, eventAt(450*ms, 1, event.Free, event.Event{Addr: 0x1000}))
		case 5:
			inputs = append(inputs, input.ProcessLoss{PID: 1, Events: 40, First: begin + 505*ms, Last: begin + 520*ms}, eventAt(590*ms, 2, event.Exit, event.Event{}))
		case 7:
			inputs = append(inputs, input.Pause{})
		}
	}
	return Source{Config: analyzer.Config{Start: begin, Seed: [2]uint64{1, 2}}, End: 1000 * ms, Play: func(a *analyzer.Analyzer, until uint64, told func(input.Input)) ([]string, error) {
		for _, in := range inputs {
			a.Take(in)
			told(in)
		}
		return nil, nil
	}}
}

// TestMake has a step for the very end, too, as memtrace query --timeline does.
func TestMake(t *testing.T) {
	t.Parallel()
	got, err := Make(two(), Options{Steps: 10})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "samples", samples(got), "0:1500=1000+500 210:8501=8000+501... 590:30=10+20")
	if got.StepNS != 100*ms || len(got.Steps) != 11 || len(got.Faults) != 10 || got.Faults[2] != 1 {
		t.Errorf("steps of %d, %d of them, faults %v", got.StepNS, len(got.Steps), got.Faults)
	}
	if s := got.Steps[4]; s.LiveBytes != 400 || s.BornBytes != 100 || s.EndedBytes != 100 {
		t.Errorf("%+v", s)
	}
	wantText(t, "marks", fmt.Sprint(got.Marks), "[{590000000 exit 2 two exited}]")
	wantText(t, "bands", fmt.Sprint(got.Bands), "[{505000000 520000000 lost 1 40} {700000000 800000000 paused 0 0}]")
}

// samples are a timeline's as text. Two in one step are the larger one.
func samples(l *Timeline) (out string) {
	for i, s := range l.Samples {
		if i > 0 {
			out += " "
		}
		sum := uint64(0)
		for _, p := range s.Parts {
			sum += p
		}
		more := ""
		if sum != s.RSS {
			more = fmt.Sprintf(" (parts: %d)", sum)
		}
		if s.AtNS/ms == 210 {
			more += "..."
		}
		out += fmt.Sprintf("%d:%d=%d+%d%s", s.AtNS/ms, s.RSS, s.Parts[0], s.Parts[4], more)
	}
	return out
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// TestMakeOfAPart is of a span, and of one process.
func TestMakeOfAPart(t *testing.T) {
	t.Parallel()
	got, err := Make(two(), Options{From: 200 * ms, To: 500 * ms, Steps: 3, PID: 2})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "samples", samples(got), "210:7001=7000+1...")
	if len(got.Bands)+len(got.Marks) != 0 || got.Steps[0].LiveBytes != 0 || got.Faults[0] != 0 || len(got.Steps) != 4 {
		t.Errorf("%+v", got)
	}
	if _, err := Make(two(), Options{From: 2000 * ms}); err == nil {
		t.Error("a span after the end has a timeline")
	}
}

// TestMakeIsBounded has more processes, marks and losses than a page needs.
func TestMakeIsBounded(t *testing.T) {
	t.Parallel()
	got, err := Make(Source{Config: analyzer.Config{Start: begin, Seed: [2]uint64{1, 2}}, End: 1000 * ms, Play: func(_ *analyzer.Analyzer, _ uint64, told func(input.Input)) ([]string, error) {
		for pid := range uint32(maxProcesses + 5) {
			told(memoryOf(pid, 1*ms, 1, 0))
		}
		for i := range uint64(maxMarks + 5) {
			told(eventAt(i*1000, 1, event.Exec, event.Event{}))
			told(input.ProcessLoss{PID: uint32(i % 2), Events: 1, First: begin + i, Last: begin + i})
		}
		return nil, nil
	}}, Options{Steps: 10})
	if err != nil {
		t.Fatal(err)
	}
	// Two of the last five losses go on from the last band.
	if len(got.Marks) != maxMarks || len(got.Bands) != maxBands || got.Omitted != 8 || len(got.Notes) != 1 || len(got.Samples) != 1 || got.Samples[0].RSS != maxProcesses {
		t.Errorf("%d marks, %d bands, %d omitted, notes %q, %d samples", len(got.Marks), len(got.Bands), got.Omitted, got.Notes, len(got.Samples))
	}
}
