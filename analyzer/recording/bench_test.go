package recording

import (
	"bytes"
	"os"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// nowhere is a File that counts.
type nowhere struct{ n int64 }

func (f *nowhere) Write(b []byte) (int, error) { f.n += int64(len(b)); return len(b), nil }
func (f *nowhere) Truncate(int64) error        { return nil }
func (f *nowhere) Sync() error                 { return nil }
func (f *nowhere) Close() error                { return nil }

// recordedInputs are those of the recording that MEMTRACE_RECORDING names, without one those of a simulated program, and
// the header. Events are in batches, as a tracer gives them.
func recordedInputs(b *testing.B) (Header, []input.Input, int) {
	if name := os.Getenv("MEMTRACE_RECORDING"); name != "" {
		file, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		var out []input.Input
		events := 0
		r := open(b, file)
		if err := r.Inputs(func(in input.Input) error {
			out = append(out, input.Copy(in))
			if v, ok := in.(*input.Events); ok {
				events += len(v.Events)
			}
			return nil
		}, nil); err != nil {
			b.Fatal(err)
		}
		return *r.Header(), out, events
	}
	const batches = 512
	h := newHeap(5)
	out := []input.Input{input.Started{ProcessInfo: input.ProcessInfo{PID: 77}}}
	for range batches {
		out = append(out, &input.Events{Events: h.some(1024)})
	}
	return header, out, batches * 1024
}

// BenchmarkRecorded takes a recording's events again: encode is what one costs the goroutine that gives it, write also
// compresses; read is without an analyzer, replay with one, analyzer that alone.
func BenchmarkRecorded(b *testing.B) {
	h, inputs, events := recordedInputs(b)
	file := record(b, Options{}, inputs...)
	c, err := h.Config.Analyzer(0, 0)
	if err != nil {
		b.Fatal(err)
	}
	perEvent := func(b *testing.B, n int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*events), "ns/event")
	}
	b.Run("encode", func(b *testing.B) { benchmarkEncode(b, inputs, events) })
	b.Run("write", func(b *testing.B) {
		n := 0
		f := new(nowhere)
		for b.Loop() {
			w, err := NewWriter(f, h, Options{})
			if err != nil {
				b.Fatal(err)
			}
			w.disk.waits = true
			for _, in := range inputs {
				w.Take(in)
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			n++
		}
		perEvent(b, n)
		b.ReportMetric(float64(f.n)/float64(n*events), "bytes/event")
	})
	b.Run("read", func(b *testing.B) {
		n := 0
		for b.Loop() {
			if err := reopened(b, file).Inputs(func(input.Input) error { return nil }, nil); err != nil {
				b.Fatal(err)
			}
			n++
		}
		perEvent(b, n)
	})
	b.Run("analyzer", func(b *testing.B) {
		n := 0
		for b.Loop() {
			a := analyzer.New(c)
			for _, in := range inputs {
				a.Take(in)
			}
			a.Close()
			n++
		}
		perEvent(b, n)
	})
	b.Run("replay", func(b *testing.B) {
		n := 0
		for b.Loop() {
			a := analyzer.New(c)
			if _, err := reopened(b, file).Play(a, End, nil); err != nil {
				b.Fatal(err)
			}
			a.Close()
			n++
		}
		perEvent(b, n)
	})
}

func reopened(b *testing.B, file []byte) *Reader {
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func benchmarkEncode(b *testing.B, inputs []input.Input, events int) {
	x := newEventEncoder(newStackEncoder())
	var cols [columns][]byte
	n, filled := 0, 0
	add := func(batch []event.Event) {
		for i := range batch {
			x.add(&cols, &batch[i])
		}
		if filled += len(batch); filled >= blockEvents {
			filled = 0
			x.reset()
			for i := range cols {
				cols[i] = cols[i][:0]
			}
		}
	}
	for b.Loop() {
		for _, in := range inputs {
			if v, ok := in.(*input.Events); ok {
				add(v.Events)
			}
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*events), "ns/event")
}
