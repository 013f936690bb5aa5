//go:build linux && !viewer

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/procfs"
)

const (
	// serveRing is what a CPU's rings hold where an agent watches a service: page faults are few beside allocations,
	// and an agent has a tracer for each service.
	serveRing = 512 << 10
	// endPatience is how long a tracer has to end in good order when its agent is gone.
	endPatience = 10 * time.Second
)

// startedByServe reports whether an agent has started this memtrace: see agent.StartedByServe.
func startedByServe() bool { return os.Getenv(agent.StartedByServe) != "" }

// traceForAgent traces the processes that come on stdin until that ends, and tells on stdout what their growth belongs to.
// It goes on while there are none: a service may be restarting.
func traceForAgent(ctx context.Context, set settings) error {
	signal.Ignore(syscall.SIGPIPE) // an agent that was killed must not take the end of the recording along
	set.lasts, set.top, set.tracer.RingBytes, set.tracer.Relaxed = true, 0, serveRing, true
	if err := set.recording.open(); err != nil {
		return err
	}
	defer set.recording.abandon()
	s, err := newSession(set, noOutput{})
	if err != nil {
		return err
	}
	defer s.close()
	own, err := s.fs.Process(os.Getpid())
	if err != nil {
		return err
	}
	defer own.Close()
	f := newFeed(os.Stdout, own)
	f.greet()
	s.out = startFeed(s, f)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		s.takeOrders(os.Stdin, f)
		time.AfterFunc(endPatience, func() { os.Exit(agent.LateExit) })
	}()
	if err := s.loop(ctx); err != nil {
		return err
	}
	return s.withRecord(nil)
}

// takeOrders begins to trace each process that is ordered, until the orders end.
func (s *session) takeOrders(from io.Reader, f *feed) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var o agent.Order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			fmt.Fprintf(os.Stderr, "memtrace: an order of the agent can't be read: %v\n", err)
			return
		}
		s.runInSession(func() {
			if err := s.follow(o); err != nil {
				f.refuse(o.PID)
				s.say("process %d is not watched: %v", o.PID, err)
			}
		})
	}
}

// follow begins to trace a process, unless it is traced already, as the child of another.
func (s *session) follow(o agent.Order) error {
	if t := s.targets[o.PID]; t != nil && !t.exited {
		return nil
	}
	t, err := holdTarget(s.fs, o.PID)
	if err != nil {
		return err
	}
	if t.held.StartTime != o.StartTime {
		t.close()
		return fmt.Errorf("another process has had its ID since: %w", procfs.ErrGone)
	}
	if err := s.beginHeld(t); err != nil {
		s.drop(t)
		return err
	}
	return nil
}
