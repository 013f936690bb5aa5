package symbol

import (
	"fmt"
	"runtime/debug"
)

// guard runs f and turns a panic in it into an error. f may touch memory-mapped
// files: a page beyond the end of a file that somebody truncated meanwhile
// raises SIGBUS, which would end memtrace; for the time of f it is a panic
// that is caught here.
func guard(what string, f func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v (file damaged, or truncated while in use)", what, p)
		}
	}()
	return f()
}
