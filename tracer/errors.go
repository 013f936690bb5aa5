package tracer

import (
	"errors"
	"strings"
)

// ErrNotSupported means that the kernel lacks what was asked for.
var ErrNotSupported = errors.New("not supported by this kernel")

// ErrNotPermitted means that the caller's privileges or the kernel's lockdown
// forbid what was asked for.
var ErrNotPermitted = errors.New("not permitted")

// ErrClosed is returned by Read once a closed Tracer has handed out all events.
var ErrClosed = errors.New("tracer closed")

// refused is an EPERM or EACCES of bpf(2). Package ebpf guesses at the limit on locked memory, which is lifted before:
// it never is the cause.
type refused struct{ err error }

func (r refused) Error() string {
	return strings.ReplaceAll(r.err.Error(), " (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", "")
}

func (r refused) Unwrap() error { return r.err }
