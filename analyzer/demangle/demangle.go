package demangle

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/memtrace/memtrace/analyzer/demangle/worker"
)

// Form says how a name is to be written.
type Form = worker.Form

const (
	// Full names have parameters and template arguments, as c++filt.
	Full = worker.Full
	// Short names leave both out.
	Short = worker.Short
)

const (
	// maxSpent is the processor time that the names of a Budget may take, beyond the ordinary for each.
	maxSpent = 2 * time.Second
	// ordinary is what the names of LLVM and Clang take on average, where others want the processor, too.
	ordinary = 20 * time.Microsecond
)

// Errors of names that stay as they are.
var (
	ErrCost  = errors.New("it takes more to demangle than any name of a compiler")
	ErrSpent = errors.New("the names before it have taken more to demangle than those of any honest program")
)

// A Budget is the processor time that the names of one owner may take. The zero Budget is whole. It may be used from
// several goroutines.
type Budget struct{ spent atomic.Int64 }

// Demangle returns the readable form of a name of C++ or Rust, of at most worker.MaxText bytes, or the name itself: where
// it has no such form, and with an error where memtrace can't afford to look for one.
func (b *Budget) Demangle(name string, form Form) (string, error) {
	if len(name) > worker.MaxName {
		return name, ErrCost
	}
	if b.Spent() && !cheap(name) {
		return name, ErrSpent
	}
	if !doubtful(name) {
		b.Time(func() { name = worker.Demangle(name, form) })
		return name, nil
	}
	text, took, err := ask(name, form)
	b.Charge(took)
	if err != nil {
		return name, err
	}
	return text, nil
}

// Time does something for a name, and counts the processor time that it takes.
func (b *Budget) Time(f func()) {
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	before := threadTime()
	defer func() { b.Charge(threadTime() - before) }()
	f()
}

// Charge counts the time that a name has taken.
func (b *Budget) Charge(took time.Duration) { b.spent.Add(max(0, int64(took-ordinary))) }

// Spent tells that no more may be taken, but for names that cost next to nothing.
func (b *Budget) Spent() bool { return b.spent.Load() > int64(maxSpent) }
