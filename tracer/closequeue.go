package tracer

import (
	"errors"
	"sync"
	"sync/atomic"
)

// closeQueue closes the attachments of processes that have ended. Closing a
// link takes some 50 ms, as the kernel waits until no CPU runs its program
// any more. Many can wait at once.
type closeQueue struct {
	pending atomic.Int64
	done    sync.WaitGroup
	slots   chan struct{}

	mu   sync.Mutex
	errs []error
}

const (
	// maxCloses is how many attachments are being closed at a time.
	maxCloses = 64
	// maxPendingCloses is how many may wait. Each hit of a probe checks the links of
	// all processes, ended ones too, at some 50 ns each.
	maxPendingCloses = 512
	// maxCloseErrors bounds how many errors are kept.
	maxCloseErrors = 10
)

func newCloseQueue() *closeQueue { return &closeQueue{slots: make(chan struct{}, maxCloses)} }

// take closes an attachment in the background.
func (d *closeQueue) take(a *attachment) {
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
		if len(d.errs) < maxCloseErrors {
			d.errs = append(d.errs, err)
		}
	})
}

// wait waits until all are closed, and returns what failed.
func (d *closeQueue) wait() error {
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
func (t *Tracer) Behind() bool { return t.closing.pending.Load() >= maxPendingCloses }
