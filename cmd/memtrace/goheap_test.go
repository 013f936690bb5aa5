//go:build linux && !viewer

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/goheap"
)

// A slowGoReader answers when it is told to.
type slowGoReader struct {
	deliver chan *goheap.Profile
	closed  chan struct{}
}

func (r *slowGoReader) Read() (*goheap.Profile, error)     { return <-r.deliver, nil }
func (*slowGoReader) Frames(addrs []uint64) []goheap.Frame { return nil }
func (*slowGoReader) Version() string                      { return "go1.26" }
func (r *slowGoReader) Close()                             { close(r.closed) }

// A goReading is a goProfile's reading of a slowGoReader, by looks that wait for nothing.
type goReading struct {
	*goProfile
	slow   *slowGoReader
	opened int
	taken  []goAnswer
}

func newGoReading() *goReading {
	return &goReading{goProfile: newGoProfile(), slow: &slowGoReader{make(chan *goheap.Profile), make(chan struct{})}}
}

// look takes what a session would, and returns what came of it.
func (g *goReading) look(patience time.Duration) []goAnswer {
	g.taken = nil
	g.read(0, patience, func() (goReader, error) { g.opened++; return g.slow, nil }, func(a goAnswer) {
		g.taken = append(g.taken, a)
		if g.readAt = 0; a.err == nil {
			g.readAt = a.at
		}
	})
	return g.taken
}

// deliver has the reading at work end, as one that took so long.
func (g *goReading) deliver(p *goheap.Profile, took time.Duration) {
	g.slow.deliver <- p
	a := <-g.answer
	a.took = took
	g.answer <- a
}

// A program whose memory does not come holds up a trace once; what comes of it later serves then.
func TestGoHeapThatDoesNotCome(t *testing.T) {
	t.Parallel()
	g := newGoReading()
	for _, patience := range []time.Duration{time.Millisecond, time.Hour} { // the second one does not wait
		if a := g.look(patience); len(a) != 1 || !errors.Is(a[0].err, errNotDelivered) || a[0].at == 0 {
			t.Fatalf("read of a program that does not answer: %+v, want %v", a, errNotDelivered)
		}
	}
	want := &goheap.Profile{Buckets: 3}
	g.deliver(want, time.Hour)
	if a := g.look(time.Hour); len(a) != 1 || a[0].profile != want || g.answer == nil || g.opened != 1 {
		t.Fatalf("the late answer: %+v, opened %d times", a, g.opened)
	}
	g.close()
	select {
	case <-g.slow.closed:
		t.Fatal("the reader was closed while it was at work")
	default:
	}
	g.slow.deliver <- want
	<-g.slow.closed
}

// After an answer that came late each look has figures, with the time that they are of: while all that follow are
// late, too, and when they are in time again.
func TestGoHeapAfterALateAnswer(t *testing.T) {
	t.Parallel()
	g := newGoReading()
	g.look(0)
	for i := range 3 {
		p := &goheap.Profile{Buckets: i}
		g.deliver(p, time.Hour)
		read := now()
		if a := g.look(time.Hour); len(a) != 1 || a[0].profile != p || a[0].at > read || g.answer == nil {
			t.Fatalf("look %d after a late answer: %+v", i, a)
		}
	}
	g.deliver(&goheap.Profile{}, 0) // in time: the next one is waited for
	go func() { g.slow.deliver <- &goheap.Profile{Buckets: 7} }()
	if a := g.look(time.Hour); len(a) != 2 || a[1].profile.Buckets != 7 || a[1].at < a[0].at || g.answer != nil {
		t.Fatalf("the look after an answer in time: %+v", a)
	}
	if a := g.look(0); len(a) != 0 || g.readAt == 0 {
		t.Fatalf("while the next one is late: %+v, want the figures from before", a)
	}
	g.readAt -= uint64(goKeep) + 1
	if a := g.look(0); len(a) != 1 || !errors.Is(a[0].err, errNotDelivered) {
		t.Fatalf("once they are too old: %+v", a)
	}
	g.deliver(&goheap.Profile{}, 0)
	g.close()
	<-g.slow.closed
}

func TestGoHeapThatIsNone(t *testing.T) {
	t.Parallel()
	g := newGoProfile()
	var a goAnswer
	g.read(0, time.Hour, func() (goReader, error) { return nil, goheap.ErrNotGo }, func(read goAnswer) { a = read })
	if a.reader != nil || !errors.Is(a.err, goheap.ErrNotGo) {
		t.Errorf("read of a program that is not Go's: %+v", a)
	}
	g.close()
}
