package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

func TestWriteEventJSON(t *testing.T) {
	const attach = 5_000_000_000
	names := EventNames{Thread: "redis-server", Site: "std::vector<int>::grow", Stack: []string{"std::vector<int>::grow", "main"}}
	for _, c := range []struct {
		e     event.Event
		names EventNames
		want  string
	}{
		{event.Event{Kind: event.Alloc, Time: attach + 1_234_567_890, PID: 1234, TID: 1240, Size: 128, Addr: 0x5581c0}, names,
			`{"time_ns":1234567890,"pid":1234,"tid":1240,"thread":"redis-server","kind":"alloc","size":128,"address":"0x5581c0",` +
				`"site":"std::vector<int>::grow","stack":["std::vector<int>::grow","main"]}`},
		{event.Event{Kind: event.Realloc, Time: attach, PID: 1, TID: 1, Size: 256, Old: 0x10, Addr: 0x20, Child: 4096}, EventNames{},
			`{"time_ns":0,"pid":1,"tid":1,"kind":"realloc","size":256,"address":"0x20","old":"0x10","interval":4096}`},
		{event.Event{Kind: event.Free, Time: attach - 1000, PID: 1, TID: 1, Addr: 0x20}, EventNames{},
			`{"time_ns":-1000,"pid":1,"tid":1,"kind":"free","address":"0x20"}`},
		{event.Event{Kind: event.AllocFailed, Time: attach, PID: 1, TID: 1, Size: 1 << 62}, EventNames{},
			`{"time_ns":0,"pid":1,"tid":1,"kind":"alloc-failed","size":4611686018427387904}`},
		{event.Event{Kind: event.Fault, Time: attach, PID: 1, TID: 1, Addr: 0x1000, Flags: event.FaultMajor}, EventNames{},
			`{"time_ns":0,"pid":1,"tid":1,"kind":"fault","address":"0x1000","major":true}`},
		{event.Event{Kind: event.Fork, Time: attach, PID: 1, TID: 1, Child: 77}, EventNames{}, `{"time_ns":0,"pid":1,"tid":1,"kind":"fork","child":77}`},
		{event.Event{Kind: event.PoolChange, Time: attach, PID: 1, TID: 1, Addr: 8, Child: uint32(event.PoolEnded)}, EventNames{},
			`{"time_ns":0,"pid":1,"tid":1,"kind":"pool-change","address":"0x8","change":"ended"}`},
		{event.Event{Kind: event.Exit, Time: attach, PID: 1, TID: 1}, EventNames{Thread: "a\x1b\"\u202e\xff", Stack: []string{}},
			`{"time_ns":0,"pid":1,"tid":1,"thread":"a\u001b\"\u202e\\xff","kind":"exit","stack":[]}`},
	} {
		got := string(WriteEventJSON([]byte("x"), &c.e, attach, c.names))
		if want := "x" + c.want + "\n"; got != want {
			t.Errorf("%s:\n got %q\nwant %q", c.e.Kind, got, want)
		}
		if !json.Valid([]byte(got[1:])) {
			t.Errorf("%s is no JSON: %q", c.e.Kind, got)
		}
	}
}

// The titles stand above what they name.
func TestEventTitlesStandAboveTheirColumns(t *testing.T) {
	e := event.Event{Kind: event.Alloc, Time: 1_000_000_000, PID: 1234, TID: 1240, Size: 128, Addr: 0x5581c0}
	line := string(WriteEvent(nil, &e, 0, EventNames{Thread: "redis-server", Site: "f"}))
	for title, text := range map[string]string{"SECONDS": "1.000000", "PID": "1234", "TID": "1240", "SIZE": "128"} { // to the right
		if a, b := strings.Index(EventTitles, title)+len(title), strings.Index(line, text)+len(text); a != b {
			t.Errorf("%s ends at %d, and its figure at %d", title, a, b)
		}
	}
	for title, text := range map[string]string{"THREAD": "redis", "KIND": "alloc", "ADDRESS": "0x5581c0"} { // to the left
		if a, b := strings.Index(EventTitles, title), strings.Index(line, text); a != b {
			t.Errorf("%s begins at %d, and what it names at %d", title, a, b)
		}
	}
}
