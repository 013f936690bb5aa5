//go:build integration

package tracer

import (
	"errors"
	"testing"
	"time"
)

// TestDetachFromBusyThreads: threads that run into breakpoints all the time survive that these are taken away.
func TestDetachFromBusyThreads(t *testing.T) {
	tr, err := New(Config{RingBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan uint32, 1) // a process of which there are events
	go func() {
		defer close(seen)
		for {
			b, err := tr.Read()
			if errors.Is(err, ErrClosed) {
				return
			}
			if len(b.Events) > 0 {
				select {
				case seen <- b.Events[len(b.Events)-1].PID:
				default:
				}
			}
			b.Release()
		}
	}()
	rounds := 12
	if testing.Short() {
		rounds = 4 // each loads a program for each probe where the kernel has no cookies, and there are five kernels
	}
	for range rounds {
		detachFromBusy(t, tr, seen)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func detachFromBusy(t *testing.T, tr *Tracer, seen <-chan uint32) {
	t.Helper()
	p := start(t, nil, "churn", "20", "2", "1000")
	pid := p.cmd.Process.Pid
	if err := tr.Attach(pid, discover(t, pid)); err != nil {
		t.Fatal(err)
	}
	p.proceed()
	for <-seen != uint32(pid) {
	}
	if err := tr.Detach(pid); err != nil {
		t.Error(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- p.cmd.Wait() }()
	select {
	case err := <-exited:
		t.Fatalf("the program ended when its probes went: %v", err)
	case <-time.After(100 * time.Millisecond): // in which it calls the functions that had them some hundred thousand times
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-exited
}
