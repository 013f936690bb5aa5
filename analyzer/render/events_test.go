package render

import (
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

func TestWriteEvent(t *testing.T) {
	const attach = 5_000_000_000
	names := EventNames{Thread: "redis-server", Site: "sdsnewlen"}
	for _, c := range []struct {
		e     event.Event
		names EventNames
		want  string
	}{
		{event.Event{Kind: event.Alloc, Time: attach + 1_234_567_890, PID: 1234, TID: 1240, Size: 128, Addr: 0x5581c0}, names,
			"    1.234567    1234    1240 redis-server    alloc                 128 0x5581c0 sdsnewlen\n"},
		{event.Event{Kind: event.Realloc, Time: attach, PID: 1, TID: 1, Size: 256, Old: 0x10, Addr: 0x20}, names,
			"    0.000000       1       1 redis-server    realloc               256 0x10 -> 0x20 sdsnewlen\n"},
		{event.Event{Kind: event.Free, Time: attach + 90_000_000_001_999, PID: 1, TID: 1, Addr: 0x20}, EventNames{Thread: "x"},
			"90000.000001       1       1 x               free                    - 0x20\n"},
		{event.Event{Kind: event.AllocFailed, Time: attach - 1000, PID: 1, TID: 1, Size: 1 << 62}, EventNames{},
			"   -0.000001       1       1                 alloc-failed   4611686018427387904 -\n"},
		{event.Event{Kind: event.ReallocFailed, Time: attach, PID: 1, TID: 1, Size: 9, Old: 0x30}, EventNames{},
			"    0.000000       1       1                 realloc-failed          9 0x30\n"},
		{event.Event{Kind: event.Fault, Time: attach, PID: 1, TID: 1, Addr: 0x1000, Flags: event.FaultMajor}, EventNames{},
			"    0.000000       1       1                 fault                   - 0x1000 major\n"},
		{event.Event{Kind: event.Fork, Time: attach, PID: 1, TID: 1, Child: 77}, EventNames{},
			"    0.000000       1       1                 fork                    - child 77\n"},
		{event.Event{Kind: event.Exit, Time: attach, PID: 1, TID: 1}, EventNames{Thread: "a\x1b[2J", Site: "\n"},
			`    0.000000       1       1 a\x1b[2J        exit                    - \x0a` + "\n"},
	} {
		if got := string(WriteEvent(nil, &c.e, attach, c.names)); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.e.Kind, got, c.want)
		}
	}
}

func TestWriteEventAllocatesNothing(t *testing.T) {
	e := event.Event{Kind: event.Realloc, Time: 1, PID: 1, TID: 2, Size: 3, Old: 4, Addr: 5}
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		buf = WriteEvent(buf[:0], &e, 0, EventNames{Thread: "b\x1bd", Site: "f"})
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func BenchmarkWriteEvent(b *testing.B) {
	e := event.Event{Kind: event.Realloc, Time: 1_234_567_890, PID: 1234, TID: 1240, Size: 300, Old: 0x55d0c0ffee10, Addr: 0x55d0c0ffef20}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = WriteEvent(buf[:0], &e, 0, EventNames{Thread: "redis-server", Site: "sdsMakeRoomFor"})
	}
	b.SetBytes(int64(len(buf)))
}
