package symbol

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDemangling is the processor time that a file's names of more than longName bytes may take. Those of
	// real programs take 0.1 ms each.
	maxDemangling = 2 * time.Second
	longName      = 512
)

// demangle is Names.demangled of a name of the file. The time that long ones take counts: how long
// that is can't be told from a name.
func (f *mappedFile) demangle(how Names, name string) string {
	if len(name) <= longName {
		return how.demangled(name)
	}
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	before := threadTime()
	text := how.demangled(name)
	f.demangling.Add(threadTime() - before)
	return text
}

// threadTime is the processor time of the calling thread, ns.
func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}
