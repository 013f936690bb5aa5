//go:build linux && !viewer

package main

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/tracer"
)

// A forwarder passes signals on to the program that memtrace runs, once: a terminal, `kill -PGID` and service managers
// send theirs to each process of a group, the program among them. A program that takes the second SIGINT for "at once"
// would not end in order.
type forwarder struct {
	to     *os.Process
	tracer *tracer.Tracer
	noted  bool // the kernel tells who was sent what
}

const (
	// togetherBefore is how long before memtrace the program may have got a signal from the same sender for the two to
	// be one order, and togetherAfter how long after. Service managers go from process to process in milliseconds.
	togetherBefore = time.Second
	togetherAfter  = 100 * time.Millisecond
)

// forwardSignals begins to pass on signals, of which the kernel may have noted who was sent what, and those that came
// while the program was started. stop ends that.
func (s *session) forwardSignals(in *interrupts, to *os.Process, noted bool) (stop func()) {
	f := &forwarder{to: to, tracer: s.tracer, noted: noted}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	in.giveTo(func(sig os.Signal) {
		select {
		case signals <- sig:
		default: // as many wait as package signal keeps
		}
	})
	fromTerminal := term.IsTerminal(int(os.Stdin.Fd())) && inForeground()
	go func() {
		for sig := range signals {
			number := sig.(unix.Signal)
			if number == unix.SIGUSR1 && s.flight() != nil {
				continue // it is for us
			}
			if fromTerminal && (number == unix.SIGINT || number == unix.SIGQUIT) || f.noted && f.hasIt(number) {
				continue
			}
			_ = f.to.Signal(sig) // it may have ended
		}
	}()
	return func() {
		signal.Stop(signals)
		in.keep()
		close(signals)
	}
}

// hasIt reports whether the program got the signal that we got from whoever sent it to us. It waits for what is still to come,
// but for signals that ask for no end, which may come often.
func (f *forwarder) hasIt(number unix.Signal) bool {
	own, ok := f.tracer.SentSignal(os.Getpid(), int(number))
	if !ok {
		return false
	}
	if number != unix.SIGUSR1 && number != unix.SIGUSR2 {
		time.Sleep(togetherAfter)
	}
	its, ok := f.tracer.SentSignal(f.to.Pid, int(number))
	return ok && its.Sender == own.Sender && its.At+uint64(togetherBefore) > own.At
}

// inForeground reports whether the terminal on stdin sends its signals to us.
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
