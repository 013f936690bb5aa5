//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestFailedLooksAtAJVMInARow: a process that is slow to answer now and then is asked for as long as it lives; only looks
// that fail one after the other end that.
func TestFailedLooksAtAJVMInARow(t *testing.T) {
	s, p := &session{}, new(target)
	answer := func(err error) {
		_, p.names.cancel = context.WithCancel(context.Background())
		s.noteJVMReply(p, jvmReply{took: time.Millisecond, err: err})
	}
	failed := &jvmLookError{errors.New("its memory does not come")}
	for range 3 {
		for range maxJVMLooks - 1 {
			answer(failed)
		}
		answer(errJVMStarts)
	}
	if p.names.never || p.names.looks != 0 {
		t.Errorf("after %d failed looks, with others between them, it is asked no more (%+v)", 3*(maxJVMLooks-1), p.names)
	}
}
