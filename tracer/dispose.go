package tracer

import (
	"errors"
	"sync"
	"sync/atomic"
)

// disposals closes the attachments of processes that have ended. To close a
// link takes some 50 ms, for the kernel waits until no CPU runs its program
// any more; but many can wait together.
type disposals struct {
	pending atomic.Int64
	done    sync.WaitGroup
	slots   chan struct{}

	mu   sync.Mutex
	errs []error
}

const (
	// disposedAtOnce is how many attachments are being closed at a time.
	disposedAtOnce = 64
	// maxDisposals is how many may wait: each hit of a probe asks the links of
	// all processes, dead ones too, some 50 ns each.
	maxDisposals = 512
	// maxDisposalErrors bounds what is remembered of failures.
	maxDisposalErrors = 10
)

func newDisposals() *disposals { return &disposals{slots: make(chan struct{}, disposedAtOnce)} }

// take closes an attachment in the background.
func (d *disposals) take(a *attachment) {
	d.pending.Add(1)
	d.done.Go(func() {
		d.slots <- struct{}{}
		err := a.close()
		<-d.slots
		d.pending.Add(-1)
		if err == nil {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.errs) < maxDisposalErrors {
			d.errs = append(d.errs, err)
		}
	})
}

// wait waits until all are closed, and returns what failed.
func (d *disposals) wait() error {
	d.done.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := errors.Join(d.errs...)
	d.errs = nil
	return err
}

// Behind reports whether so many processes have ended of late that their
// probes could not be removed yet: a caller that goes on to attach to
// short-lived processes would slow down all others.
func (t *Tracer) Behind() bool { return t.disposals.pending.Load() >= maxDisposals }
