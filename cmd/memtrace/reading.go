package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/render"
)

// exitInterrupted is a shell's exit code for what SIGINT ended.
const exitInterrupted = 130

// A reading is a recording that is being read, which may take minutes.
type reading struct {
	ctx      context.Context // of Ctrl-C
	name     string
	terminal bool
	began    time.Time
	shown    time.Time // when the line on the terminal was written last; zero: it is not there
}

func newReading(ctx context.Context, name string) *reading {
	return &reading{ctx: ctx, name: name, terminal: term.IsTerminal(int(os.Stderr.Fd())), began: time.Now()}
}

// watch is a recording.Reader's Watch: it says how far the reading is, where that takes long, and ends it at Ctrl-C.
func (r *reading) watch(done float64) error {
	interrupted := r.ctx.Err() != nil
	switch now := time.Now(); {
	case interrupted || done >= 1:
		if !r.shown.IsZero() {
			fmt.Fprint(os.Stderr, "\r\x1b[K")
			r.shown = time.Time{}
		}
	case r.terminal && now.Sub(r.began) > time.Second && now.Sub(r.shown) > 200*time.Millisecond:
		r.shown = now
		fmt.Fprintf(os.Stderr, "\r\x1b[Kreading %s: %.0f %%", render.Clean(r.name), 100*done)
	}
	if interrupted {
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
	return nil
}
