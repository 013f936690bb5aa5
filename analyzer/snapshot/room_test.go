package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

const (
	fuzzRoom = 4 << 20
	// fuzzAllocated is what reading with fuzzRoom may allocate: the room, as much
	// again where lists grow, and the decompressor's own.
	fuzzAllocated = 2*fuzzRoom + 24<<20
)

// allocated returns how many bytes fn allocates, what it frees included.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bomb makes a file of the same block again and again.
func bomb(t *testing.T, kind uint32, raw []byte, times int) []byte {
	t.Helper()
	var out bytes.Buffer
	b, err := newBlockWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	b.block(blockMachine, machineBlock())
	for range times {
		b.block(kind, raw)
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSmallFilesOfMuch: what a few kilobytes say may take no more memory than
// a reader has for it, whatever it is.
func TestSmallFilesOfMuch(t *testing.T) {
	process := func(more func(*encoder)) []byte {
		return encoded(func(e *encoder) { e.message(1, func(e *encoder) { e.uint(1, 5); more(e) }) })
	}
	arguments := process(func(e *encoder) {
		for range maxArguments {
			e.item(7, "")
		}
	})
	uses := process(func(e *encoder) {
		for range 1 << 20 {
			e.item(22, "")
		}
	})
	name := encoded(func(e *encoder) {
		e.message(1, func(e *encoder) { e.text(1, strings.Repeat("a", maxText)) })
	})
	row := bytes.Repeat([]byte{1}, 1<<20)
	still := make([]byte, 1<<20) // frames
	pages := encoded(func(e *encoder) {
		e.message(1, func(e *encoder) {
			for c := range 3 {
				e.item(4+c, string(row))
			}
			e.item(7, string(still))
		})
	})
	frames := encoded(func(e *encoder) {
		for c := range 4 {
			e.item(4+c, string(row))
		}
	})
	for what, c := range map[string]struct {
		kind  uint32
		raw   []byte
		times int
		says  string
	}{
		"arguments":       {blockProcesses, bytes.Repeat(arguments, 20), 20, "names"},
		"uses":            {blockProcesses, uses, 8, "uses of components"},
		"components":      {blockComponents, bytes.Repeat([]byte{1<<3 | wireBytes, 0}, maxComponents/2), 2, "components"},
		"component names": {blockComponents, bytes.Repeat(name, 500), 20, "names"},
		"one host name":   {blockMachine, bytes.Repeat(encoded(func(e *encoder) { e.text(3, strings.Repeat("a", maxText)) }), 500), 20, "names"},
		"processes":       {blockProcesses, bytes.Repeat(process(func(*encoder) {}), 1<<20), 3, "processes"},
		"changes":         {blockChanges, bytes.Repeat([]byte{1<<3 | wireBytes, 0}, maxProcesses-1), 1, "changes"},
		"pages":           {blockPages, pages, 8, "pages"},
		"frames":          {blockFrames, frames, 8, "frames"},
		"large blocks":    {77, make([]byte, maxBlock), 3, ""},
	} {
		file := bomb(t, c.kind, c.raw, c.times)
		var err error
		took := allocated(func() { _, err = Read(bytes.NewReader(file)) })
		if took > 3*DefaultRoom {
			t.Errorf("%s: a file of %d bytes had %d MiB allocated", what, len(file), took>>20)
		}
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "with its "+c.says+" more than 209715200 bytes") {
			t.Errorf("%s: a file of %d bytes: %v", what, len(file), err)
		}
	}
}

// TestTooLargeNamesTheFile: and a larger room is room enough.
func TestTooLargeNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "names.snap")
	name := encoded(func(e *encoder) {
		e.message(1, func(e *encoder) { e.text(1, strings.Repeat("a", maxText)) })
	})
	if err := os.WriteFile(path, bomb(t, blockComponents, bytes.Repeat(name, 100), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenWithin(path, 1<<20); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), path) {
		t.Errorf("with 1 MiB: %v", err)
	}
	if s, err := Open(path); err != nil || len(s.Components) != 100 {
		t.Errorf("with the usual room: %v", err)
	}
}

// TestManyProcesses: a machine with ten thousand processes fits.
func TestManyProcesses(t *testing.T) {
	want := sample()
	want.Processes, want.Pages = nil, nil
	for i := range 3000 {
		want.Components = append(want.Components, Component{Name: fmt.Sprintf("/usr/lib/x86_64-linux-gnu/libsomething%d.so.6", i), Inode: uint64(i)})
	}
	for i := range 10_000 {
		p := Process{ID: ID{PID: i + 1, StartTime: uint64(i)}, Comm: "worker", Cgroup: "/system.slice/some.service",
			Cmdline: []string{"/usr/sbin/some", "--worker", fmt.Sprint(i)}}
		for c := range 180 {
			p.Uses = append(p.Uses, Use{Component: 7 * c, Mappings: 5, Size: 1 << 20, RSS: 40960, PSS: 4096})
		}
		want.Processes = append(want.Processes, p)
	}
	got, err := Read(bytes.NewReader(written(t, want)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v", err)
	}
}
