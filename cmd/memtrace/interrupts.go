//go:build linux && !viewer

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// interrupts are the SIGINT and SIGTERM that memtrace gets, from its first instant on. The first ends its context;
// a program that memtrace runs gets each of them, also one that came before it was there.
type interrupts struct {
	mu     sync.Mutex
	first  syscall.Signal // 0: none came yet
	passOn func(os.Signal)
	told   func()    // is called at each; nil: nothing is
	toldAt time.Time // when that was last
}

type interruptsKey struct{}

// catchInterrupts returns the context of memtrace. stop gives the signals their usual effect again.
func catchInterrupts() (ctx context.Context, stop func()) {
	in := new(interrupts)
	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), interruptsKey{}, in))
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			in.take(s)
			cancel(fmt.Errorf("interrupted by %s", signalName(s)))
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// signalName is a signal's, such as SIGINT.
func signalName(s os.Signal) string {
	if number, ok := s.(syscall.Signal); ok {
		return unix.SignalName(number)
	}
	return s.String()
}

// interruptsOf returns those that end a context; without any, ones that never come.
func interruptsOf(ctx context.Context) *interrupts {
	if in, ok := ctx.Value(interruptsKey{}).(*interrupts); ok {
		return in
	}
	return new(interrupts)
}

func (in *interrupts) take(s os.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if number, ok := s.(syscall.Signal); ok && in.first == 0 {
		in.first = number
	}
	if in.passOn != nil {
		in.passOn(s)
	}
	if in.told != nil && time.Since(in.toldAt) > secondSignalAfter {
		in.toldAt = time.Now()
		in.told()
	}
}

// tell has told called at each signal that comes, and once for those that come together. It must not wait. nil ends
// that.
func (in *interrupts) tell(told func()) {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.told, in.toldAt = told, time.Time{}
}

// giveTo calls pass with the first signal, if one came already, and with each that comes. pass must not wait.
func (in *interrupts) giveTo(pass func(os.Signal)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.first != 0 {
		pass(in.first)
	}
	in.passOn = pass
}

// keep ends what giveTo began.
func (in *interrupts) keep() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.passOn = nil
}

// before is the error where a signal came before a command was started; nil: none came. Its exit code is a shell's.
func (in *interrupts) before(command string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.first == 0 {
		return nil
	}
	return &exitError{128 + int(in.first), fmt.Errorf("%s came before %s was started: nothing was traced", signalName(in.first), command)}
}
