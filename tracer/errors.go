package tracer

import "errors"

// ErrNotSupported means that the kernel lacks what was asked for.
var ErrNotSupported = errors.New("not supported by this kernel")

// ErrNotPermitted means that the caller's privileges or the kernel's lockdown
// forbid what was asked for.
var ErrNotPermitted = errors.New("not permitted")

// ErrClosed is returned by Read once a closed Tracer has handed out all events.
var ErrClosed = errors.New("tracer closed")
