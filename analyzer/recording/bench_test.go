package recording

import (
	"bytes"
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

// batches of a program's events, as a tracer gives them.
func batchesOf(n int) (out []input.Input) {
	h := newHeap(5)
	for range n {
		batch := make([]event.Event, 1024)
		for i := range batch {
			batch[i] = h.event()
		}
		out = append(out, &input.Events{Events: batch})
	}
	return out
}

// BenchmarkWrite is what an event costs the goroutine that gives it, and what it takes in the file.
func BenchmarkWrite(b *testing.B) {
	batches := batchesOf(512)
	f := new(nowhere)
	w, err := NewWriter(f, header, Options{})
	if err != nil {
		b.Fatal(err)
	}
	w.disk.waits = true
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		w.Take(batches[n%len(batches)])
		n++
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*1024), "ns/event")
	b.ReportMetric(float64(f.n)/float64(n*1024), "bytes/event")
}

// BenchmarkEncode is the same without compressing and writing.
func BenchmarkEncode(b *testing.B) {
	batches := batchesOf(512)
	x := newEventEncoder()
	var cols [columns][]byte
	n := 0
	for b.Loop() {
		for _, in := range batches[:128] {
			v := in.(*input.Events)
			for i := range v.Events {
				x.add(&cols, &v.Events[i])
			}
		}
		x.reset()
		for i := range cols {
			cols[i] = cols[i][:0]
		}
		n += 128 * 1024
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}

func benchmarkRead(b *testing.B, take func(input.Input) error) {
	var inputs []input.Input
	inputs = append(inputs, input.Started{ProcessInfo: input.ProcessInfo{PID: 77}})
	inputs = append(inputs, batchesOf(1024)...)
	file := record(b, Options{}, inputs...)
	n := 0
	for b.Loop() {
		r, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Inputs(take, nil); err != nil {
			b.Fatal(err)
		}
		n += 1024 * 1024
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}

// BenchmarkRead is what an event costs to be read, BenchmarkReplay with the analyzer that it is for.
func BenchmarkRead(b *testing.B) {
	benchmarkRead(b, func(input.Input) error { return nil })
}

func BenchmarkReplay(b *testing.B) {
	a := analyzer.New(analyzer.Config{Start: 1000})
	defer a.Close()
	benchmarkRead(b, func(in input.Input) error { a.Take(in); return nil })
}
