package render

import (
	"bytes"
	"strconv"

	"github.com/memtrace/memtrace/tracer/event"
)

// WriteEventJSON appends e to buf as an object on a line of its own:
//
//	{"time_ns":1234567890,"pid":1234,"tid":1240,"thread":"redis-server","kind":"realloc","size":128,"address":"0x5581f0","old":"0x5581c0","site":"sdsMakeRoomFor"}
//
// time_ns is since attachNS (CLOCK_MONOTONIC, as e.Time), size is in bytes. What a kind has not, and names that are not known, are
// left out. interval is of an event of a sample (event.Event.Interval), stack has the functions of the call stack, innermost first.
func WriteEventJSON(buf []byte, e *event.Event, attachNS uint64, names EventNames) []byte {
	buf = strconv.AppendInt(append(buf, `{"time_ns":`...), int64(e.Time-attachNS), 10)
	buf = strconv.AppendUint(append(buf, `,"pid":`...), uint64(e.PID), 10)
	buf = strconv.AppendUint(append(buf, `,"tid":`...), uint64(e.TID), 10)
	if names.Thread != "" {
		buf = appendJSONText(append(buf, `,"thread":`...), names.Thread)
	}
	buf = append(append(append(buf, `,"kind":"`...), e.Kind.String()...), '"')
	buf = appendJSONSubject(buf, e)
	if names.Site != "" {
		buf = appendJSONText(append(buf, `,"site":`...), names.Site)
	}
	if names.Stack != nil {
		buf = append(buf, `,"stack":[`...)
		for i, name := range names.Stack {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = appendJSONText(buf, name)
		}
		buf = append(buf, ']')
	}
	return append(buf, "}\n"...)
}

// appendJSONSubject appends size and addresses, as far as the kind has them.
func appendJSONSubject(buf []byte, e *event.Event) []byte {
	switch e.Kind {
	case event.Fork:
		return strconv.AppendUint(append(buf, `,"child":`...), uint64(e.Child), 10)
	case event.Exec, event.Exit:
		return buf
	case event.Free, event.Fault, event.PoolBegin, event.PoolChange:
	default:
		buf = strconv.AppendUint(append(buf, `,"size":`...), e.Size, 10)
	}
	if e.Kind != event.AllocFailed && e.Kind != event.ReallocFailed {
		buf = append(appendHex(append(buf, `,"address":"`...), e.Addr), '"')
	}
	switch e.Kind {
	case event.Realloc, event.ReallocFailed, event.Mremap:
		buf = append(appendHex(append(buf, `,"old":"`...), e.Old), '"')
	case event.PoolBegin:
		buf = append(appendHex(append(buf, `,"parent":"`...), e.Old), '"')
	case event.PoolChange:
		buf = append(append(append(buf, `,"change":"`...), e.Change().String()...), '"')
	case event.Fault:
		buf = strconv.AppendBool(append(buf, `,"major":`...), e.Flags&event.FaultMajor != 0)
	}
	if n := e.Interval(); n != 0 {
		buf = strconv.AppendUint(append(buf, `,"interval":`...), uint64(n), 10)
	}
	return buf
}

// appendJSONText appends a text that may be hostile as a JSON string.
func appendJSONText(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			text, _ := EncodeJSON(ValidText(s), "", false) // a string always has a form
			return append(buf, bytes.TrimSuffix(text, []byte{'\n'})...)
		}
	}
	return append(append(append(buf, '"'), s...), '"')
}

// EventTitles is the line above those of WriteEvent.
const EventTitles = "     SECONDS     PID     TID THREAD          KIND                 SIZE ADDRESS SITE\n"

// WriteEventStack appends the functions of a call stack below a line of WriteEvent, one a line.
func WriteEventStack(buf []byte, stack []string) []byte {
	for _, name := range stack {
		buf = append(appendClean(append(buf, "               at "...), name), '\n')
	}
	return buf
}
