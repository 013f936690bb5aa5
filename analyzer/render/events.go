package render

import (
	"strconv"

	"github.com/memtrace/memtrace/tracer/event"
)

// EventNames are the names that go with an event's line; all are untrusted.
type EventNames struct {
	Thread string   // the thread's comm
	Site   string   // the call site's function, empty if unknown
	Stack  []string // the functions of the call stack, innermost first; nil: not asked for, or none is known
}

// WriteEvent appends the --events line of e to buf, newline included:
//
//	1.234567    1234    1240 redis-server    realloc           128 0x5581c0 -> 0x5581f0 sdsMakeRoomFor
//
// that is seconds since attachNS (CLOCK_MONOTONIC, as e.Time), PID, TID, thread
// name, kind, size in bytes, address and site. It allocates nothing beyond buf.
func WriteEvent(buf []byte, e *event.Event, attachNS uint64, names EventNames) []byte {
	buf = appendSeconds(buf, e.Time, attachNS)
	buf = appendPadded(append(buf, ' '), uint64(e.PID), 7)
	buf = appendPadded(append(buf, ' '), uint64(e.TID), 7)
	buf = append(buf, ' ')
	start := len(buf)
	buf = padTo(appendClean(buf, names.Thread), start, 15)
	buf = append(buf, ' ')
	start = len(buf)
	buf = padTo(append(buf, e.Kind.String()...), start, 14)
	buf = append(buf, ' ')
	buf = appendSubject(buf, e)
	if names.Site != "" {
		buf = appendClean(append(buf, ' '), names.Site)
	}
	return append(buf, '\n')
}

// appendSubject appends size and addresses, as far as the kind has them.
func appendSubject(buf []byte, e *event.Event) []byte {
	switch e.Kind {
	case event.Fork:
		buf = appendPadded(append(buf, "         - child "...), uint64(e.Child), 0)
		return buf
	case event.Exec, event.Exit:
		return append(buf, "         -"...)
	case event.Free, event.Fault, event.PoolBegin, event.PoolChange:
		buf = append(buf, "         -"...)
	default:
		buf = appendPadded(buf, e.Size, 10)
	}
	switch e.Kind {
	case event.PoolBegin:
		return appendHex(append(appendHex(append(buf, ' '), e.Addr), " in "...), e.Old)
	case event.PoolChange:
		return append(append(appendHex(append(buf, ' '), e.Addr), ' '), e.Change().String()...)
	case event.Realloc, event.Mremap:
		buf = appendHex(append(buf, ' '), e.Old)
		return appendHex(append(buf, " -> "...), e.Addr)
	case event.ReallocFailed:
		return appendHex(append(buf, ' '), e.Old)
	case event.AllocFailed:
		return append(buf, " -"...)
	}
	buf = appendHex(append(buf, ' '), e.Addr)
	if e.Kind == event.Fault && e.Flags&event.FaultMajor != 0 {
		buf = append(buf, " major"...)
	}
	return buf
}

// appendSeconds appends t-origin in seconds with six decimals, in 12 columns or more.
func appendSeconds(buf []byte, t, origin uint64) []byte {
	ns := t - origin
	start := len(buf)
	if t < origin { // clocks of events at the attach itself
		ns = origin - t
		buf = append(buf, '-')
	}
	us := ns / 1000
	buf = strconv.AppendUint(buf, us/1e6, 10)
	buf = append(buf, '.')
	for unit := uint64(100_000); unit > 0; unit /= 10 {
		buf = append(buf, byte('0'+us/unit%10))
	}
	return rightAlign(buf, start, 12)
}

func appendPadded(buf []byte, v uint64, width int) []byte {
	start := len(buf)
	return rightAlign(strconv.AppendUint(buf, v, 10), start, width)
}

func appendHex(buf []byte, v uint64) []byte {
	return strconv.AppendUint(append(buf, "0x"...), v, 16)
}

// rightAlign moves buf[start:] right so that it fills width columns.
func rightAlign(buf []byte, start, width int) []byte {
	n := len(buf) - start
	for i := n; i < width; i++ {
		buf = append(buf, ' ')
	}
	if n < width {
		copy(buf[len(buf)-n:], buf[start:start+n])
		for i := start; i < len(buf)-n; i++ {
			buf[i] = ' '
		}
	}
	return buf
}

// padTo fills buf[start:] with spaces to width bytes.
func padTo(buf []byte, start, width int) []byte {
	for len(buf)-start < width {
		buf = append(buf, ' ')
	}
	return buf
}
