package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memtrace/memtrace/testdata/costtest"
)

func written(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadsWhatWasWritten(t *testing.T) {
	want := sample()
	got, err := Read(bytes.NewReader(written(t, want)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// TestLargeSnapshot takes several blocks of components and of processes.
func TestLargeSnapshot(t *testing.T) {
	want := sample()
	want.Processes = nil
	for i := range 15_000 {
		want.Components = append(want.Components, Component{Name: string(bytes.Repeat([]byte{byte('a' + i%26)}, 400)), Inode: uint64(i)})
		want.Processes = append(want.Processes, Process{ID: ID{PID: i + 1}, Comm: "x", Cmdline: []string{string(make([]byte, 500))}})
	}
	got, err := Read(bytes.NewReader(written(t, want)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v", err)
	}
}

// TestDamage flips a bit of each byte of a file and cuts it at each length: no
// damage goes unnoticed.
func TestDamage(t *testing.T) {
	whole := written(t, sample())
	for n := range whole {
		_, err := Read(bytes.NewReader(whole[:n]))
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotSnapshot) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		if i == 10 || i == 11 {
			continue // the minor version: newer ones are read
		}
		_, err := Read(bytes.NewReader(bad))
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotSnapshot) && !errors.Is(err, ErrVersion) {
			t.Fatalf("a bit of byte %d flipped: %v", i, err)
		}
	}
	if _, err := Read(bytes.NewReader(append(whole, 0))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestOtherFiles(t *testing.T) {
	for _, data := range []string{"", "x", "#!/bin/sh\necho hello world\n", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00"} {
		if _, err := Read(bytes.NewReader([]byte(data))); !errors.Is(err, ErrNotSnapshot) {
			t.Errorf("%q: %v", data, err)
		}
	}
	newer := written(t, sample())
	newer[8]++
	if _, err := Read(bytes.NewReader(newer)); !errors.Is(err, ErrVersion) {
		t.Errorf("newer: %v", err)
	}
}

// rawFile makes a file of blocks whose bytes are given.
func rawFile(t testing.TB, blocks map[uint32][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	b, err := newBlockWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []uint32{blockMachine, blockComponents, blockProcesses, blockChanges, blockFrames, blockPages, 77} {
		if raw, ok := blocks[kind]; ok {
			b.block(kind, raw)
		}
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func encoded(encode func(*encoder)) []byte {
	e := &encoder{}
	encode(e)
	return e.buf
}

func machineBlock() []byte {
	return encoded(func(e *encoder) { encodeMachine(e, sample()) })
}

// TestUnknownFieldsAndBlocks: what a newer minor version adds is skipped.
func TestUnknownFieldsAndBlocks(t *testing.T) {
	machine := encoded(func(e *encoder) {
		encodeMachine(e, sample())
		e.uint(500, 7)
		e.text(501, "new")
		e.tag(502, wireFixed8)
		e.buf = append(e.buf, make([]byte, 8)...)
		e.tag(503, wireFixed4)
		e.buf = append(e.buf, make([]byte, 4)...)
	})
	s, err := Read(bytes.NewReader(rawFile(t, map[uint32][]byte{blockMachine: machine, 77: []byte("anything")})))
	if err != nil || s.Machine.Hostname != "host" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestLies: files with right checksums that say what cannot be.
func TestLies(t *testing.T) {
	one := func(number int, encode func(*encoder)) []byte {
		return encoded(func(e *encoder) { e.message(number, encode) })
	}
	process := func(more func(*encoder)) map[uint32][]byte {
		return map[uint32][]byte{blockMachine: machineBlock(), blockProcesses: one(1, func(e *encoder) { e.uint(1, 5); more(e) })}
	}
	for name, blocks := range map[string]map[uint32][]byte{
		"no machine":   {},
		"no page size": {blockMachine: nil},
		"no PID":       {blockMachine: machineBlock(), blockProcesses: one(1, func(*encoder) {})},
		"no component": process(func(e *encoder) { e.message(22, func(e *encoder) { e.uint(1, 3) }) }),
		"huge figure":  process(func(e *encoder) { e.message(21, func(e *encoder) { e.uint(2, 1<<63) }) }),
		"huge PID":     process(func(e *encoder) { e.uint(1, 1<<40) }),
		"long name":    process(func(e *encoder) { e.text(6, string(make([]byte, maxText+1))) }),
		"same process twice": {blockMachine: machineBlock(), blockProcesses: encoded(func(e *encoder) {
			e.message(1, func(e *encoder) { e.uint(1, 5) })
			e.message(1, func(e *encoder) { e.uint(1, 5) })
		})},
		"sum overflows": {blockMachine: machineBlock(), blockProcesses: encoded(func(e *encoder) {
			for pid := range 200 {
				e.message(1, func(e *encoder) {
					e.uint(1, uint64(pid+1))
					e.message(21, func(e *encoder) { e.uint(1, maxBytes) })
				})
			}
		})},
		"pages of nobody": {blockMachine: machineBlock(), blockPages: one(1, func(e *encoder) { e.uint(1, 9) })},
		"pages of no component": {blockMachine: machineBlock(), blockProcesses: one(1, func(e *encoder) { e.uint(1, 5) }),
			blockPages: one(1, func(e *encoder) { encodePages(e, &ProcessPages{}, []PageRun{{1, 1, 1, 0}}) })},
		"run of nothing":     {blockMachine: machineBlock(), blockFrames: encodeFrames([]FrameRun{{1, 0, 1, 1}})},
		"frames of no order": {blockMachine: machineBlock(), blockFrames: encodeFrames([]FrameRun{{1 << 60, 1, 1, 1}})},
		"a column too short": {blockMachine: machineBlock(), blockFrames: encoded(func(e *encoder) { e.text(4, "\x01\x01"); e.text(5, "\x01") })},
		"field number 0":     {blockMachine: {0}},
		"field cut off":      {blockMachine: {1<<3 | wireBytes, 5, 'a'}},
		"strange wire":       {blockMachine: {1<<3 | 7}},
		"number too long":    {blockMachine: bytes.Repeat([]byte{0x88}, 20)},
		"fixed cut off":      {blockMachine: {1<<3 | wireFixed8, 0}},
		"length overflows":   {blockMachine: {1<<3 | wireBytes, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
	} {
		if _, err := Read(bytes.NewReader(rawFile(t, blocks))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBomb: a block that decompresses to more than it says, and one that says
// more than a reader takes.
func TestBomb(t *testing.T) {
	zip, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := zip.EncodeAll(make([]byte, maxBlock+1<<20), nil)
	for _, raw := range []uint32{16, maxBlock, maxBlock + 1<<20} {
		file := bytes.Clone(written(t, sample())[:headerBytes])
		frame := binary.LittleEndian.AppendUint32(nil, blockMachine)
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(stored)))
		frame = binary.LittleEndian.AppendUint32(frame, raw)
		sum := crc32.Update(crc32.Checksum(frame, castagnoli), castagnoli, stored)
		file = append(binary.LittleEndian.AppendUint32(append(file, frame...), sum), stored...)
		if _, err := Read(bytes.NewReader(file)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d: %v", raw, err)
		}
	}
}

// TestManyPages takes several messages a process and several blocks.
func TestManyPages(t *testing.T) {
	want := sample()
	var runs []PageRun
	var frames []FrameRun
	for i := range uint64(3 * runsAtOnce / 2) {
		runs = append(runs, PageRun{Page: 2 * i, Frame: 1<<20 - i, Count: 1, Component: uint32(i % 3)})
		frames = append(frames, FrameRun{First: 3 * i, Count: 2, Mapped: uint32(i), Flags: i})
	}
	want.Pages.Processes[0].Runs, want.Pages.Frames = runs, frames
	got, err := Read(bytes.NewReader(written(t, want)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v", err)
	}
}

func TestSaveIsWholeOrNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.snap")
	size, err := Save(context.Background(), path, sample())
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || info.Size() != size || info.Mode().Perm() != 0o600 {
		t.Fatalf("%d, %v; %v, %v", size, err, info, statErr)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(io.ErrClosedPipe)
	if _, err := Save(ctx, path, sample()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Save that was interrupted: %v", err)
	}
	if _, err := Save(context.Background(), filepath.Join(dir, "no", "such"), sample()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Save in a folder that is not there: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file that was there changed: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if s, err := Open(path); err != nil || !reflect.DeepEqual(s, sample()) {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, sample()))
	f.Add(written(f, &Snapshot{Machine: Machine{PageSize: 4096}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		var s *Snapshot
		var err error
		if took := allocated(func() { s, err = ReadWithin(bytes.NewReader(data), fuzzRoom) }); took > fuzzAllocated {
			t.Errorf("a file of %d bytes had %d bytes allocated", len(data), took)
		}
		if err != nil {
			return
		}
		again, err := Read(bytes.NewReader(written(t, s)))
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%+v, %v, again %+v", s, err, again)
		}
	})
}

// FuzzBlocks fuzzes what the checksums keep FuzzRead from reaching.
func FuzzBlocks(f *testing.F) {
	s := sample()
	f.Add(machineBlock(), encoded(func(e *encoder) {
		e.message(1, func(e *encoder) { encodeComponent(e, &s.Components[2]) })
	}), encoded(func(e *encoder) {
		e.message(1, func(e *encoder) { encodeProcess(e, &s.Processes[1]) })
	}), encoded(func(e *encoder) { encodeChanges(e, &s.Changes) }), encodeFrames(s.Pages.Frames), encoded(func(e *encoder) {
		e.message(1, func(e *encoder) { encodePages(e, &s.Pages.Processes[0], s.Pages.Processes[0].Runs) })
	}))
	f.Fuzz(func(t *testing.T, machine, components, processes, changes, frames, pages []byte) {
		defer costtest.Bound(t)()
		file := rawFile(t, map[uint32][]byte{
			blockMachine: machine, blockComponents: components, blockProcesses: processes, blockChanges: changes,
			blockFrames: frames, blockPages: pages,
		})
		var s *Snapshot
		var err error
		if took := allocated(func() { s, err = ReadWithin(bytes.NewReader(file), fuzzRoom) }); took > fuzzAllocated {
			t.Errorf("a file of %d bytes had %d bytes allocated", len(file), took)
		}
		if err == nil {
			written(t, s)
		} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
}
