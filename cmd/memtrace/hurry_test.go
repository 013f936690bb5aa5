//go:build linux && !viewer

package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/cmd/memtrace/naming"
)

// TestHurryAtSignal: a signal has the last Report go without further names if it comes long after that has begun, and
// not if it ended the trace, or came along with its end.
func TestHurryAtSignal(t *testing.T) {
	for _, test := range []struct {
		what    string
		began   uint64
		hurries bool
	}{
		{what: "in the trace"},
		{what: "as the last Report begins", began: now() + uint64(time.Hour)},
		{what: "long after", began: now() - uint64(secondSignalAfter), hurries: true},
	} {
		t.Run(test.what, func(t *testing.T) {
			names := naming.New(symbol.Options{}, nil)
			defer names.Close()
			if _, err := names.Look("/proc", os.Getpid(), 0, func() bool { return true }); err != nil {
				t.Fatal(err)
			}
			s := session{names: names}
			s.reporting.Store(test.began)
			s.signalled()
			here := uint64(reflect.ValueOf(TestHurryAtSignal).Pointer()) + 1
			names.Function(os.Getpid(), here) // go test has the linker leave out its name
			hurries := slices.ContainsFunc(names.Warnings(), func(w string) bool { return strings.Contains(w, "signal") })
			if hurries != test.hurries {
				t.Errorf("it hurries: %v", hurries)
			}
		})
	}
}

// TestToldOfSignals: signals are told once where they come together, as timeout(1) sends them.
func TestToldOfSignals(t *testing.T) {
	in, times := new(interrupts), 0
	in.take(syscall.SIGINT)
	in.tell(func() { times++ })
	for range 3 {
		in.toldAt = time.Time{} // long ago
		in.take(syscall.SIGINT)
		in.toldAt = time.Now().Add(time.Hour) // as if no time passed
		in.take(syscall.SIGTERM)
	}
	in.tell(nil)
	in.toldAt = time.Time{}
	if in.take(syscall.SIGTERM); times != 3 {
		t.Errorf("told of %d signals, want 3", times)
	}
}
