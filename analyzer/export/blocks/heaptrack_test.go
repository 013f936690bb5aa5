package blocks

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// A heaptrackReader goes by the rules of accumulatedtracedata.cpp.
type heaptrackReader struct {
	strings      []string
	instructions []struct{ function int }
	traces       []struct{ instruction, parent int }
	infos        []struct {
		size  uint64
		trace int
	}
	latest, rss                     uint64
	ms                              uint64
	allocs, temporary, leaked, peak uint64
	byLeaf                          map[string]*sums
	exe                             string
}

func readHeaptrack(t *testing.T, text []byte) *heaptrackReader {
	t.Helper()
	r := &heaptrackReader{byLeaf: make(map[string]*sums)}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) < 3 || line[1] != ' ' && line[0] != '#' {
			t.Fatalf("a line %q", line)
		}
		if err := r.line(line[0], line[2:]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return r
}

func (r *heaptrackReader) line(letter byte, rest string) error {
	switch letter {
	case 's':
		r.strings = append(r.strings, rest)
		return nil
	case 'X':
		r.exe = rest
		return nil
	case '#':
		return nil
	}
	var n []uint64
	for _, word := range strings.Split(rest, " ") {
		v, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			return err
		}
		n = append(n, v)
	}
	switch letter {
	case 'v':
		if n[1] != 1 {
			return errors.New("another version")
		}
	case 'i':
		r.instructions = append(r.instructions, struct{ function int }{int(n[2])})
	case 't':
		r.traces = append(r.traces, struct{ instruction, parent int }{int(n[0]), int(n[1])})
	case 'a':
		r.infos = append(r.infos, struct {
			size  uint64
			trace int
		}{n[0], int(n[1])})
	case '+', '-':
		return r.block(letter == '+', n[0])
	case 'c':
		if n[0] < r.ms {
			return errors.New("time runs back")
		}
		r.ms = n[0]
	case 'R':
		r.rss = max(r.rss, n[0])
	case 'I':
	default:
		return errors.New("unknown")
	}
	return nil
}

func (r *heaptrackReader) block(alloc bool, at uint64) error {
	if at >= uint64(len(r.infos)) {
		return errors.New("no such kind")
	}
	info := r.infos[at]
	leaf := r.strings[r.instructions[r.traces[info.trace-1].instruction-1].function-1]
	s := r.byLeaf[leaf]
	if s == nil {
		s = &sums{}
		r.byLeaf[leaf] = s
	}
	if !alloc {
		if at == r.latest {
			r.temporary++
		}
		r.latest = 0
		r.leaked -= info.size
		s.liveBytes -= info.size
		s.frees++
		return nil
	}
	r.latest = at
	r.allocs++
	r.leaked += info.size
	r.peak = max(r.peak, r.leaked)
	s.allocs++
	s.allocBytes += info.size
	s.liveBytes += info.size
	return nil
}

// Every figure is that of the book that was kept as the events were made up.
func TestHeaptrackHasEveryBlock(t *testing.T) {
	t.Parallel()
	s := twoProcesses(20_000)
	for pid, b := range s.books {
		text, notes := s.write(t, Options{Format: Heaptrack, PID: pid})
		r := readHeaptrack(t, text)
		if r.allocs != b.sum.allocs || r.leaked != b.sum.liveBytes || r.peak != b.peak || r.temporary != b.atOnce {
			t.Errorf("%d: %d allocations, %d leaked, peak %d, %d temporary; want %d, %d, %d, %d",
				pid, r.allocs, r.leaked, r.peak, r.temporary, b.sum.allocs, b.sum.liveBytes, b.peak, b.atOnce)
		}
		compareLeaves(t, r.byLeaf, b.byLeaf)
		var rss uint64
		for _, v := range b.rss {
			rss = max(rss, v)
		}
		if r.rss*heaptrackPage != rss || r.ms != (s.now-sceneStart)/1e6 {
			t.Errorf("%d: RSS %d pages at most, of %d bytes; %d ms of %d ns", pid, r.rss, rss, r.ms, s.now-sceneStart)
		}
		want := fmt.Sprintf("heaptrack shows %d temporary allocations and the Report %d:", b.atOnce, b.temporary)
		if b.atOnce == b.temporary || len(notes) != 1 || !strings.HasPrefix(notes[0], want) {
			t.Errorf("%q, want %q", notes, want)
		}
	}
}

func compareLeaves(t *testing.T, got, want map[string]*sums) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d functions, want %d", len(got), len(want))
	}
	for leaf, s := range want {
		if got[leaf] == nil || *got[leaf] != *s {
			t.Errorf("%s: %+v, want %+v", leaf, got[leaf], *s)
		}
	}
}

// An exec begins afresh, as heaptrack itself does.
func TestHeaptrackIsOfTheLastProgram(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	b := s.process(100, "sh", 4)
	s.run(b, 500, 4)
	s.event(event.Event{PID: 100, TID: 100, Child: 100, Kind: event.Exec})
	after := s.process(100, "program", 4)
	s.run(after, 500, 4)
	s.end()
	text, notes := s.write(t, Options{Format: Heaptrack})
	r := readHeaptrack(t, text)
	if r.allocs != after.sum.allocs || r.leaked != after.held || r.peak != after.peak || r.exe != "/usr/bin/program" {
		t.Errorf("%s: %d allocations, %d leaked, peak %d, want %+v", r.exe, r.allocs, r.leaked, r.peak, after.sum)
	}
	if !strings.Contains(strings.Join(notes, "\n"), "since the last exec of PID 100") {
		t.Error(notes)
	}
}

func TestHeaptrackIsOfOneProcess(t *testing.T) {
	t.Parallel()
	s := twoProcesses(1000)
	for pid, want := range map[uint32]string{
		0: "which process: heaptrack holds one, and the recording has 2; name one with --pid: 100 (first, ",
		9: "which process: no block of PID 9 is in the recording",
	} {
		_, err := Write(io.Discard, s.play, Options{Format: Heaptrack, PID: pid, Config: s.config})
		if !errors.Is(err, ErrProcess) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("PID %d: %v, want %s", pid, err, want)
		}
	}
}

// Names may have anything in them: a line stays one.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := newScene(5)
	s.name = func(_ uint32, leaf uint64) string { return fmt.Sprintf("f\n+ 0\n\"\x1b[2J\xff %d", leaf) }
	b := s.process(100, "x\n- 0", 3)
	s.run(b, 300, 3)
	s.end()
	text, _ := s.write(t, Options{Format: Heaptrack})
	if r := readHeaptrack(t, text); r.allocs != b.sum.allocs || len(r.byLeaf) != 3 {
		t.Errorf("%d allocations of %d", r.allocs, b.sum.allocs)
	}
	text, _ = s.write(t, Options{Format: Firefox})
	readFirefox(t, text)
}

func TestCompression(t *testing.T) {
	t.Parallel()
	s := twoProcesses(2000)
	plain, _ := s.write(t, Options{Format: Heaptrack, PID: 100})
	for name, open := range map[string]func(io.Reader) (io.Reader, error){
		"x.gz":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"x.zst": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	} {
		packed, _ := s.write(t, Options{Format: Heaptrack, PID: 100, Compression: CompressionOf(name)})
		r, err := open(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, plain) || len(packed)*2 > len(plain) {
			t.Errorf("%s: %d bytes of %d, %d packed, %v", name, len(text), len(plain), len(packed), err)
		}
	}
	for _, o := range []Options{{Format: Firefox, Compression: Zstd}, {Format: Perfetto, Compression: Zstd}, {Format: "pprof"}} {
		if o.Check() == nil {
			t.Errorf("%+v is right", o)
		}
	}
}

// A child begins with copies of its parent's blocks, which heaptrack knows as allocations alone.
func TestCopiesOfAParentsBlocks(t *testing.T) {
	t.Parallel()
	s := newScene(17)
	parent := s.process(100, "parent", 2)
	for size := range uint64(3) {
		s.alloc(parent, 100, 1, 10*(size+1), 0)
	}
	s.event(event.Event{PID: 100, TID: 100, Child: 101, Kind: event.Fork})
	s.event(event.Event{PID: 101, TID: 101, Kind: event.Free, Addr: parent.addrs[0]})
	s.end()
	text, notes := s.write(t, Options{Format: Heaptrack, PID: 101})
	r := readHeaptrack(t, text)
	if r.allocs != 3 || r.leaked != 50 || r.peak != 60 || !strings.Contains(strings.Join(notes, "\n"), "3 blocks that the process began with") {
		t.Errorf("%d allocations, %d leaked, peak %d; %q", r.allocs, r.leaked, r.peak, notes)
	}
	text, _ = s.write(t, Options{Format: Heaptrack, PID: 100})
	if r := readHeaptrack(t, text); r.allocs != 3 || r.leaked != 60 {
		t.Errorf("the parent has %d allocations, %d leaked", r.allocs, r.leaked)
	}
}

// What the stream lacks is said, once, and an error of it is one of the export.
func TestDamagedStreams(t *testing.T) {
	t.Parallel()
	s := twoProcesses(1000)
	damaged := func(a *analyzer.Analyzer, told func(input.Input)) ([]string, error) {
		_, err := s.play(a, told)
		return []string{"a second is missing"}, err
	}
	for _, format := range Formats() {
		notes, err := Write(io.Discard, damaged, Options{Format: Format(format), PID: 100, Config: s.config, Folder: t.TempDir()})
		if err != nil || len(notes) == 0 || notes[0] != "a second is missing" {
			t.Errorf("%s: %q, %v", format, notes, err)
		}
	}
	broken := errors.New("cut")
	_, err := Write(io.Discard, func(*analyzer.Analyzer, func(input.Input)) ([]string, error) { return nil, broken }, Options{Format: Firefox})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

// A disk that is full ends the export with its error.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := twoProcesses(20_000)
	for _, format := range Formats() {
		_, err := Write(fullDisk{}, s.play, Options{Format: Format(format), PID: 100, Config: s.config, Folder: t.TempDir()})
		if !errors.Is(err, errFull) {
			t.Errorf("%s: %v", format, err)
		}
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
