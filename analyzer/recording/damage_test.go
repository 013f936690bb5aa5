package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/testdata/costtest"
	"github.com/memtrace/memtrace/tracer/event"
)

// blocksOf finds where the blocks of a sound file begin.
func blocksOf(t testing.TB, file []byte) (at []int, heads []head) {
	t.Helper()
	for i := prefixSize; i < len(file); {
		h, ok := parseHead(file[i:])
		if !ok {
			t.Fatalf("no block at %d", i)
		}
		at, heads = append(at, i), append(heads, h)
		i += headSize + int(h.stored)
	}
	return at, heads
}

// A file that is cut anywhere has all blocks before the cut, and says that it was not closed.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	file := record(t, Options{}, stream(1, 40)...)
	at, heads := blocksOf(t, file)
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range append(r.Perm(len(file))[:300], at...) {
		reader, err := Open(bytes.NewReader(file[:n]), int64(n))
		switch {
		case n < len(magic):
			if !errors.Is(err, ErrNotRecording) {
				t.Fatalf("cut at %d: %v", n, err)
			}
			continue
		case n < at[1]:
			if !errors.Is(err, ErrNoHeader) {
				t.Fatalf("cut at %d: %v", n, err)
			}
			continue
		case err != nil:
			t.Fatalf("cut at %d: %v", n, err)
		}
		want := 0
		for i, h := range heads {
			if h.kind == kindInputs && at[i]+headSize+int(h.stored) <= n {
				want += int(h.events)
			}
		}
		got, gaps := readAll(t, reader)
		if events := eventsIn(got); events != want || len(gaps) != 0 || reader.Closed() {
			t.Fatalf("cut at %d: %d events, want %d; gaps %v, closed %v", n, events, want, gaps, reader.Closed())
		}
	}
}

func eventsIn(inputs []input.Input) (n int) {
	for _, in := range inputs {
		if v, ok := in.(*input.Events); ok {
			n += len(v.Events)
		}
	}
	return n
}

// A flipped bit costs one block, and the file says which: as many events are missing as the gaps tell.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	whole := record(t, Options{}, inOrder(stream(3, 60))...)
	at, heads := blocksOf(t, whole)
	all := 0
	for _, h := range heads {
		all += int(h.events)
	}
	r := rand.New(rand.NewPCG(2, 2))
	for range 400 {
		file := bytes.Clone(whole)
		bit := r.IntN(8 * (len(file) - prefixSize))
		place := prefixSize + bit/8
		file[place] ^= 1 << (bit % 8)
		hit := 0
		for i := range at {
			if at[i] <= place {
				hit = i
			}
		}
		reader, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatalf("bit %d of block %d: %v", bit, hit, err)
		}
		got, gaps := readAll(t, reader)
		missing := all - eventsIn(got)
		inHead := place < at[hit]+headSize
		switch h := heads[hit]; {
		case h.kind != kindInputs && missing != 0, h.kind == kindInputs && missing != int(h.events):
			t.Fatalf("bit %d of block %d, a %d of %d events: %d are missing", bit, hit, h.kind, h.events, missing)
		case h.kind != kindInputs:
		case len(gaps) != 1, !inHead && gaps[0].Events != uint64(h.events), inHead && gaps[0].Events != 0, gaps[0].Blocks != 1:
			t.Fatalf("bit %d of block %d of %d events: gaps %+v", bit, hit, h.events, gaps)
		case gaps[0].First > h.first && gaps[0].First > h.last, gaps[0].Last != 0 && gaps[0].Last < h.last:
			t.Fatalf("the gap %+v is not that of %d to %d", gaps[0], h.first, h.last)
		}
	}
}

// What is missing is told to have lain between the events around it, though windows stand before events that are older: blocks
// that were freed at its very end are doubted as well.
func TestGapReachesToTheEventsAroundIt(t *testing.T) {
	t.Parallel()
	f, w := writeInMemory(t, Options{})
	at := func(time uint64) *input.Events {
		return &input.Events{Events: []event.Event{{Kind: event.Alloc, PID: 7, TID: 7, Time: time, Addr: time, Size: 8}}}
	}
	for _, inputs := range [][]input.Input{
		{input.Started{ProcessInfo: input.ProcessInfo{PID: 7}}, at(5e9), input.Window{Now: 8e9}},
		{at(6e9), at(9e9)},
		{someStack(newHeap(1).r, 7e9), at(10e9)},
	} {
		for _, in := range inputs {
			w.Take(in)
		}
		w.flush()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := f.Bytes()
	places, heads := blocksOf(t, file)
	for i, h := range heads {
		if h.kind == kindInputs && h.number == 2 {
			file[places[i]+20] ^= 1
		}
	}
	out, missing, err := open(t, file).ReportAt(End, Rooms{}, analyzer.ReportOptions{Final: true})
	if err != nil || len(missing) != 1 || !strings.Contains(missing[0], "from 5s to 10s") {
		t.Fatalf("%q, %v", missing, err)
	}
	span := out.Processes[0].Loss.Spans[0]
	if start := header.Config.Start; span.FromNS != 5e9-start || span.ToNS != 10e9-start {
		t.Errorf("%+v", span)
	}
}

// inOrder are the inputs of a stream whose times are in their order, as a trace's are.
func inOrder(inputs []input.Input) (out []input.Input) {
	last := uint64(0)
	for _, in := range inputs {
		t := timeOf(in)
		if t != 0 && t < last {
			continue
		}
		switch in.(type) {
		case *input.Events, input.Stack, input.Window:
			last = max(last, t)
			out = append(out, in)
		}
	}
	return out
}

// The first bytes tell what a file is, and of which version.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	file := record(t, Options{}, input.Window{Now: 5})
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"empty": {nil, ErrNotRecording}, "text": {[]byte("#!/bin/sh\necho hello, world\n"), ErrNotRecording},
		"older":      {append(binary.LittleEndian.AppendUint16([]byte(magic), major-1), file[10:]...), ErrOlder},
		"newer":      {append(binary.LittleEndian.AppendUint16([]byte(magic), major+1), file[10:]...), ErrNewer},
		"newerMinor": {append(binary.LittleEndian.AppendUint16(append([]byte(magic), major, 0), minor+1), file[12:]...), nil},
		"noHeader":   {file[:prefixSize], ErrNoHeader},
	} {
		if _, err := Open(bytes.NewReader(c.file), int64(len(c.file))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// What a later version writes beside is passed over, and counted where it is an input.
func TestLaterKinds(t *testing.T) {
	t.Parallel()
	f, w := writeInMemory(t, Options{})
	w.disk.put(head{kind: 77}, []byte("something"))
	w.Take(input.Window{Now: 2000})
	w.script(99)
	w.cols[colOther] = append(w.cols[colOther], 3, 1, 2, 3)
	w.Take(input.Window{Now: 3000})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, f.Bytes())
	got, gaps := readAll(t, r)
	if len(got) != 2 || len(gaps) != 0 || r.unknown != 1 {
		t.Errorf("%v, gaps %v, %d unknown", got, gaps, r.unknown)
	}
}

// A disk that can't keep up costs blocks, never time, and the file says which.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	f := &stuckFile{release: make(chan struct{}), entered: make(chan struct{}, 1)}
	w, err := NewWriter(f, header, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.stuck = true
	h := newHeap(1)
	given := 0
	window := func() {
		h.time += 2e9
		w.Take(input.Window{Now: h.time})
	}
	for i := range maxWaiting + 20 {
		if i == 1 {
			<-f.entered // with the first block
		}
		in := &input.Events{}
		for range 100 {
			in.Events = append(in.Events, h.event())
		}
		given += len(in.Events)
		w.Take(in)
		window()
	}
	left := w.Status()
	close(f.release)
	if left.LeftOutBlocks < 19 || left.LeftOutEvents != 100*left.LeftOutBlocks || left.Err != nil {
		t.Errorf("%+v", left)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, gaps := readAll(t, open(t, f.Bytes()))
	if n := eventsIn(got); uint64(n) != uint64(given)-left.LeftOutEvents {
		t.Errorf("%d events, %d were given and %d left out", n, given, left.LeftOutEvents)
	}
	sum := uint64(0)
	for _, g := range gaps {
		sum += g.Events
	}
	if sum != left.LeftOutEvents || len(gaps) != 1 || !strings.Contains(gaps[0].Why, "too slow") {
		t.Errorf("gaps %+v", gaps)
	}
}

// Where a disk is too slow again and again, all that was left out is counted.
func TestTwiceTooSlow(t *testing.T) {
	t.Parallel()
	f, w := writeInMemory(t, Options{})
	for i := range uint64(10) {
		h := head{kind: kindInputs, number: w.disk.number, events: 7, first: i, last: i}
		w.disk.number++
		w.disk.leaveOut(h)
		for !w.disk.putLeftOut(w.disk.number) {
			runtime.Gosched() // until the disk has room
		}
	}
	w.Take(input.Window{Now: 5000})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, f.Bytes())
	if _, gaps := readAll(t, r); len(gaps) != 1 || gaps[0].Events != 70 || gaps[0].Blocks != 10 {
		t.Errorf("gaps %+v", gaps)
	}
}

// A stuckFile's writes wait.
type stuckFile struct {
	memoryFile
	stuck   bool
	release chan struct{}
	entered chan struct{}
}

func (f *stuckFile) Write(b []byte) (int, error) {
	if f.stuck {
		select {
		case f.entered <- struct{}{}:
		default:
		}
		<-f.release
	}
	return f.memoryFile.Write(b)
}

var errDiskFull = errors.New("no space left")

// A disk that is full is said once, leaves whole blocks, and stops nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	f, w := writeInMemory(t, Options{})
	begun := w.Status().Bytes
	w.Take(&input.Events{Events: newHeap(1).some(500)})
	w.flush()
	for w.Status().Bytes == begun {
		runtime.Gosched()
	}
	f.fail = errDiskFull
	before := f.Len()
	for range 5 {
		w.Take(&input.Events{Events: newHeap(2).some(500)})
		w.flush()
	}
	if err := w.Close(); !errors.Is(err, errDiskFull) || !f.closed {
		t.Errorf("closed %v: %v", f.closed, err)
	}
	if s := w.Status(); f.Len() != before || s.LeftOutEvents != 5*500 || !errors.Is(s.Err, errDiskFull) {
		t.Errorf("%d bytes, %d before; %+v", f.Len(), before, s)
	}
	r := open(t, f.Bytes())
	if got, gaps := readAll(t, r); eventsIn(got) != 500 || len(gaps) != 0 || r.Closed() {
		t.Errorf("%d events, gaps %v, closed %v", eventsIn(got), gaps, r.Closed())
	}
}

func (h *heap) some(n int) (out []event.Event) {
	for range n {
		out = append(out, h.event())
	}
	return out
}

// A recording that has come to its largest size is closed, and says why it ends.
func TestMaxSize(t *testing.T) {
	t.Parallel()
	f, w := writeInMemory(t, Options{MaxSize: 20000})
	h := newHeap(1)
	for range 20 {
		w.Take(&input.Events{Events: h.some(1000)})
		w.flush()
	}
	if err := w.Close(); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	r := open(t, f.Bytes())
	inputs, _ := readAll(t, r)
	if s := w.Status(); w.Counts().Events-s.LeftOutEvents != uint64(eventsIn(inputs)) || !errors.Is(s.Err, ErrFull) {
		t.Errorf("%d events of %d were left out, and the file has %d; %v", s.LeftOutEvents, w.Counts().Events, eventsIn(inputs), s.Err)
	}
	if f.Len() > 20000+300 || !r.Closed() || r.end.Why == "" {
		t.Errorf("%d bytes, closed %v", f.Len(), r.Closed())
	}
	out, _, err := r.ReportAt(End, Rooms{}, analyzer.ReportOptions{Final: true})
	if err != nil || !strings.Contains(fmt.Sprint(out.Warnings), "largest size") || strings.Contains(fmt.Sprint(out.Warnings), "damaged") {
		t.Errorf("%v, %v", out.Warnings, err)
	}
}

// FuzzRead: no file makes a reader panic, or take more than it may. What it gives, an analyzer takes or refuses.
func FuzzRead(f *testing.F) {
	small := append(filled(rand.New(rand.NewPCG(1, 1))), &input.Events{Events: newHeap(1).some(60)}, someStack(newHeap(2).r, 5000))
	f.Add(record(f, Options{}, small...))
	f.Add(record(f, Options{Level: "none"}, small...))
	f.Fuzz(func(t *testing.T, file []byte) {
		defer costtest.Bound(t)()
		repair(file)
		r, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		if err := r.Inputs(func(input.Input) error { return nil }, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.ReportAt(End, Rooms{Sites: 1 << 20, Blocks: 1 << 20}, analyzer.ReportOptions{Final: true}); err != nil && !errors.Is(err, ErrImpossible) {
			t.Fatal(err)
		}
	})
}

// repair makes checksums right, so that what they protect is read.
func repair(file []byte) {
	for i := prefixSize; i+headSize <= len(file); {
		b := file[i:]
		if binary.LittleEndian.Uint32(b) != sync {
			return
		}
		stored := int(binary.LittleEndian.Uint32(b[8:]))
		if stored < 0 || i+headSize+stored > len(file) {
			return
		}
		binary.LittleEndian.PutUint32(b[52:], checksum(b[headSize:headSize+stored]))
		binary.LittleEndian.PutUint32(b[headSize-4:], checksum(b[:headSize-4]))
		i += headSize + stored
	}
}
