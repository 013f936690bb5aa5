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

// A program whose memory does not come holds up a trace once; what comes of it later serves then.
func TestGoHeapThatDoesNotCome(t *testing.T) {
	t.Parallel()
	slow := &slowGoReader{make(chan *goheap.Profile), make(chan struct{})}
	opened := 0
	open := func() (goReader, error) { opened++; return slow, nil }
	g := newGoProfile()
	for range 2 { // the second one does not wait
		if a := g.read(0, time.Millisecond, open); !errors.Is(a.err, errNotDelivered) || a.reader != nil || a.at == 0 {
			t.Fatalf("read of a program that does not answer: %+v, want %v", a, errNotDelivered)
		}
	}
	want := &goheap.Profile{Buckets: 3}
	slow.deliver <- want
	a := g.read(0, time.Millisecond, open)
	for a.err != nil { // until the goroutine has put its answer down
		a = g.read(0, time.Millisecond, open)
	}
	if a.profile != want || g.reader != slow || opened != 1 {
		t.Fatalf("the late answer: %+v, opened %d times", a, opened)
	}
	if a := g.read(0, time.Millisecond, open); !errors.Is(a.err, errNotDelivered) {
		t.Fatalf("the next read: %+v, want %v", a, errNotDelivered)
	}
	g.close()
	select {
	case <-slow.closed:
		t.Fatal("the reader was closed while it was at work")
	default:
	}
	slow.deliver <- want
	<-slow.closed
}

func TestGoHeapThatIsNone(t *testing.T) {
	t.Parallel()
	g := newGoProfile()
	if a := g.read(0, goPatience, func() (goReader, error) { return nil, goheap.ErrNotGo }); a.reader != nil || !errors.Is(a.err, goheap.ErrNotGo) {
		t.Errorf("read of a program that is not Go's: %+v", a)
	}
	g.close()
}
