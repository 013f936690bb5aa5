package trace

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// maxPending bounds what waits for a terminal that takes nothing.
const maxPending = 1 << 20

// output writes to a terminal in a goroutine of its own: whoever writes to it waits for
// nothing. While the terminal takes nothing, what is beyond maxPending is dropped, and the screen must be
// drawn anew.
type output struct {
	file    *os.File
	mu      sync.Mutex
	changed *sync.Cond
	pending []byte
	writing bool
	dropped bool
	closing bool  // all that comes is kept: it gives the terminal back
	patient bool  // a Write waits for the terminal, as the process is about to be stopped
	ended   bool  // nothing more is written
	err     error // of the first write that failed
	failed  func()
}

func newOutput(file *os.File, failed func()) *output {
	o := &output{file: file, failed: failed}
	o.changed = sync.NewCond(&o.mu)
	go o.run()
	return o
}

func (o *output) run() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.pending) == 0 {
			if o.ended {
				return
			}
			o.changed.Wait()
		}
		b := o.pending
		o.pending, o.writing = nil, true
		o.mu.Unlock()
		_, err := o.file.Write(b)
		if err != nil {
			o.failed()
		}
		o.mu.Lock()
		if o.writing = false; err != nil && o.err == nil {
			o.err = fmt.Errorf("write to the terminal: %w", err)
		}
		o.changed.Broadcast()
	}
}

// Write waits where the process is about to be stopped, else not, and never fails.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
	case len(o.pending)+len(b) > maxPending && !o.closing:
		o.dropped = true
	default:
		o.pending = append(o.pending, b...)
		o.changed.Broadcast()
	}
	if o.patient {
		_ = o.await(stopPatience)
	}
	return len(b), nil
}

// Read, Close and Fd make an output a terminal's file, so that its size is asked for.
func (o *output) Read(b []byte) (int, error) { return o.file.Read(b) }

// Close does nothing: the file is not the output's.
func (o *output) Close() error { return nil }

// Fd is the terminal's file descriptor.
func (o *output) Fd() uintptr { return o.file.Fd() }

// idle reports whether the terminal has taken all, and whether something was dropped before.
func (o *output) idle() (idle, dropped bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	idle = len(o.pending) == 0 && !o.writing
	if idle {
		dropped, o.dropped = o.dropped, false
	}
	return idle, dropped
}

// close keeps all that is written from now on.
func (o *output) close() {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
}

// suspend has each Write wait for the terminal, or no longer.
func (o *output) suspend(patient bool) {
	o.mu.Lock()
	o.patient = patient
	o.mu.Unlock()
}

// end waits until the terminal has taken all, at most so long. Nothing may be written afterwards.
func (o *output) end(patience time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.await(patience)
	o.ended = true
	o.changed.Broadcast()
	return err
}

// await waits until the terminal has taken all, at most so long, with mu held.
func (o *output) await(patience time.Duration) error {
	over := false
	timer := time.AfterFunc(patience, func() {
		o.mu.Lock() // not between a look at over and the wait
		defer o.mu.Unlock()
		over = true
		o.changed.Broadcast()
	})
	defer timer.Stop()
	for o.err == nil && (len(o.pending) > 0 || o.writing) {
		if over {
			return fmt.Errorf("restore the terminal: it took no output for %v (stopped by Ctrl-S?); type reset if it looks odd", patience)
		}
		o.changed.Wait()
	}
	return o.err
}
