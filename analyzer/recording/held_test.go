package recording

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
)

// Lists that a recording gives for many processes are refused before they take the machine's memory; one process may
// be read anew as often as a long trace does.
func TestListsOfManyProcesses(t *testing.T) {
	t.Parallel()
	names := make([]string, 1<<16) // 1 MiB
	mappings := make([]input.Mapping, 1<<14)
	parts := make([]input.RuntimePart, 1<<15)
	long := strings.Repeat("x", 1<<20)
	info := func(pid uint32) input.ProcessInfo { return input.ProcessInfo{PID: pid, Comm: "p"} }
	for name, c := range map[string]struct {
		one  func(pid uint32) input.Input
		same bool // always of one process
		fits bool
	}{
		"functions":       {one: func(pid uint32) input.Input { p := info(pid); p.Untraced = names; return input.Started{ProcessInfo: p} }},
		"executable":      {one: func(pid uint32) input.Input { p := info(pid); p.Exe = long; return input.Described{ProcessInfo: p} }},
		"mappings":        {one: func(pid uint32) input.Input { return input.Memory{PID: pid, Mappings: mappings} }},
		"mappings of one": {one: func(pid uint32) input.Input { return input.Memory{PID: pid, Mappings: mappings} }, same: true, fits: true},
		"runtime's problem": {one: func(pid uint32) input.Input {
			return input.Memory{PID: pid, Runtime: &input.Runtime{Problem: long}}
		}},
		"runtime's parts": {one: func(pid uint32) input.Input {
			return input.Memory{PID: pid, Runtime: &input.Runtime{Parts: parts}}
		}},
		"runtime's names": {one: func(pid uint32) input.Input {
			return input.Memory{PID: pid, Runtime: &input.Runtime{Parts: []input.RuntimePart{{Name: long}}}}
		}},
		"runtime of one": {one: func(pid uint32) input.Input {
			return input.Memory{PID: pid, Runtime: &input.Runtime{Parts: parts}}
		}, same: true, fits: true},
		"Go heap's problem": {one: func(pid uint32) input.Input { return input.GoHeap{PID: pid, Problem: long} }},
		"Go heap of one": {one: func(pid uint32) input.Input {
			return input.GoHeap{PID: pid, Problem: long}
		}, same: true, fits: true},
		"usual description": {one: func(pid uint32) input.Input {
			p := info(pid)
			p.Untraced = names[:100]
			return input.Started{ProcessInfo: p}
		}, fits: true},
	} {
		var h holdings
		var err error
		for i := range uint32(400) {
			pid := 1 + i
			if c.same {
				pid = 1
			}
			if err = h.add(c.one(pid)); err != nil {
				break
			}
		}
		if (err == nil) != c.fits || err != nil && !errors.Is(err, ErrImpossible) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The player counts them.
func TestListsAreCounted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 16<<20)
	var inputs []input.Input
	for pid := range uint32(20) {
		inputs = append(inputs, input.Started{ProcessInfo: input.ProcessInfo{PID: pid + 1, Exe: long}})
	}
	_, _, err := open(t, record(t, Options{}, inputs...)).ReportAt(End, Rooms{}, analyzer.ReportOptions{Final: true})
	if !errors.Is(err, ErrImpossible) {
		t.Errorf("20 paths of 16 MiB: %v", err)
	}
}

// A block that has more names of frames than a writer puts into one is damaged: each takes 2 bytes and a hundred
// times as much in memory.
func TestTooManyNames(t *testing.T) {
	t.Parallel()
	var cols [columns]column
	for n, want := range map[int]error{maxNames: nil, maxNames + 1: errDamaged} {
		cols[colFrameNames] = column{b: bytes.Repeat([]byte{1, 0xa0}, n)}
		if err := new(nameDecoder).begin(&cols); !errors.Is(err, want) {
			t.Errorf("%d names: %v", n, err)
		}
	}
}

// Names are kept up to a bound, those that come after an instant, too, and a Report says that there were more.
func TestNamesAreCounted(t *testing.T) {
	t.Parallel()
	frame := &input.Frame{Function: "f", Module: "m"}
	inputs := []input.Input{input.Window{Now: 1e12}}
	for stack := range uint64(10) {
		inputs = append(inputs, input.Names{PID: 1, Stack: stack, Last: true, Frames: []*input.Frame{frame, frame}})
	}
	const each, once = 128 + 2*8, uint64(unsafe.Sizeof(*frame)) // and the frame's CBOR
	for _, until := range []uint64{End, 1500} {
		for room, want := range map[uint64]string{10*each + once + 100: "", 7*each + once + 100: "the names of 3 stacks are left out"} {
			r := open(t, record(t, Options{}, inputs...))
			a := analyzer.New(analyzer.Config{})
			p := player{reader: r, analyzer: a, until: until, held: holdings{names: maxHeld - room}}
			if err := p.play(); err != nil {
				t.Fatal(err)
			}
			a.Close()
			if got := fmt.Sprint(p.warnings()); !strings.Contains(got, want) || want == "" && got != "[]" {
				t.Errorf("until %d, with room for %d bytes: %s, want %q", until, room, got, want)
			}
		}
	}
}
