package tracer

import (
	"errors"
	"io"
	"time"

	"github.com/memtrace/memtrace/tracer/unwind"
)

// effort limits the processor time for making tables, counted in bytes. A user whose processes
// map one new file after the other waits, and not the users whose files come after.
type effort struct {
	now   func() time.Time
	spent map[account]spending
}

// spending is what an account had spent at a time. It decreases by effortRate.
type spending struct {
	bytes float64
	at    time.Time
}

const (
	systemShare = 8        // times as much for what root has installed
	maxEffort   = 64 << 20 // bytes of call frame information at once: what one file has at the most
	effortRate  = 1 << 20  // bytes a second
	fileEffort  = 4 << 10  // for a file, however little it has
	readEffort  = 8        // bytes that are only read, for one
	badEffort   = 1 << 20  // for a file that can't be read
	maxAccounts = 1024
)

func newEffort(now func() time.Time) *effort {
	return &effort{now: now, spent: make(map[account]spending)}
}

// spentBy is what an account's spending has decreased to by now.
func (e *effort) spentBy(a account) float64 {
	d := e.spent[a]
	return max(d.bytes-e.now().Sub(d.at).Seconds()*effortRate, 0)
}

// left reports whether an account may have another file read.
func (e *effort) left(a account) bool { return a == root || e.spentBy(a) < maxEffort }

// spend notes what reading a file took.
func (e *effort) spend(a account, read int64, source *unwind.Source, err error) {
	if a == root {
		return
	}
	bytes := fileEffort + read/readEffort
	if err == nil {
		bytes += int64(source.Bytes())
	} else if !errors.Is(err, unwind.ErrNoTables) {
		bytes += badEffort
	}
	if a.system {
		bytes /= systemShare
	}
	if len(e.spent) >= maxAccounts {
		for other := range e.spent {
			if e.spentBy(other) == 0 {
				delete(e.spent, other)
			}
		}
	}
	e.spent[a] = spending{e.spentBy(a) + float64(bytes), e.now()}
}

// countingReader counts what is read.
type countingReader struct {
	io.ReaderAt
	n int64
}

func (r *countingReader) ReadAt(to []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(to, at)
	r.n += int64(n)
	return n, err
}
