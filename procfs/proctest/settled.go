package proctest

import (
	"reflect"
	"testing"
	"time"
)

// patience bounds how long Settled tries.
const patience = 90 * time.Second

// Settled returns what memtrace reads, and what a reference read before and
// after it, which was the same. A machine never stands still: where the
// reference changes meanwhile, both are read again.
func Settled[R, O any](t testing.TB, reference func() R, ours func() O) (R, O) {
	t.Helper()
	before := reference()
	for deadline := time.Now().Add(patience); ; {
		got := ours()
		after := reference()
		if reflect.DeepEqual(before, after) {
			return after, got
		}
		if time.Now().After(deadline) {
			t.Fatalf("for %v no two readings of the reference were the same; the last were %+v and %+v", patience, before, after)
		}
		before = after
	}
}
