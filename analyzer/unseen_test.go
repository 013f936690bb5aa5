package analyzer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// Of a process seen from its start each free that matches nothing counts; of one that was attached to, those at
// an address that matched nothing before. Where calls may have been lost, neither tells anything.
func TestFreesThatMatchNothing(t *testing.T) {
	const few, thread = 100, 8
	for name, c := range map[string]struct {
		attached bool
		again    bool // each address twice
		thread   uint32
		frees    uint64
		lost     uint64
		paused   bool
		late     bool // the probes are there only after these
		want     string
	}{
		"from the start":  {want: "process 7: 100 frees"},
		"a thread's end":  {thread: thread, frees: maxCached},
		"not its end":     {thread: thread, frees: maxCached + few, want: "process 7: at least 100 frees"},
		"attached, once":  {attached: true},
		"attached, twice": {attached: true, again: true, want: "process 7: at least "},
		"lost":            {lost: 1},
		"paused":          {again: true, paused: true},
		"probes to come":  {again: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(Config{})
			onTape(t, a)
			defer a.Close()
			a.AddProcess(ProcessInfo{PID: 7, Attached: c.attached, Probed: 1, Untraced: []string{"lib.so!take"}})
			if c.late {
				a.Describe(ProcessInfo{PID: 7, Probed: 2 * few})
			}
			if c.paused {
				a.Pause()
			}
			frees := max(c.frees, few)
			var events []event.Event
			for i := range frees {
				addr := 0x1000 * (1 + i)
				if c.again {
					addr = 0x1000 * (1 + i/2)
				}
				events = append(events, event.Event{Kind: event.Free, PID: 7, TID: max(7, c.thread), Time: 1 + i, Addr: addr})
			}
			a.Apply(events)
			a.SetLoss(event.Loss{RingFull: c.lost})
			text := strings.Join(a.reportAt(1000, ReportOptions{}, nil).Warnings, "\n")
			var least uint64 // some addresses have the place of others
			if c.attached && c.again {
				if _, err := fmt.Sscanf(text, "process 7: at least %d frees", &least); err != nil || least > frees/2 || least < frees/4 {
					t.Errorf("%d frees that cannot be of earlier blocks, of %d: %v", least, frees/2, err)
				}
			}
			if c.want == "" && text != "" || !strings.Contains(text, c.want) || c.want != "" && !strings.Contains(text, "--alloc-fn 'lib.so!take:size=") {
				t.Errorf("warnings %q, want %q", text, c.want)
			}
		})
	}
}

// What a program did stays said when it has executed another.
func TestUnseenOfAProgramBefore(t *testing.T) {
	a := New(Config{})
	onTape(t, a)
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 7, GoHeap: true})
	a.Apply([]event.Event{{Kind: event.Exec, PID: 7, Child: 7, TID: 7, Time: 5}})
	r := a.reportAt(1000, ReportOptions{}, nil)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "what its Go code allocates is not seen") {
		t.Errorf("warnings %q", r.Warnings)
	}
}
