package recording

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// A memoryFile is a File in memory, which can be made to fail.
type memoryFile struct {
	bytes.Buffer
	fail   error // of the next Write, after half of it
	closed bool
}

func (f *memoryFile) Write(b []byte) (int, error) {
	if f.fail != nil {
		n, _ := f.Buffer.Write(b[:len(b)/2])
		return n, f.fail
	}
	return f.Buffer.Write(b)
}

func (f *memoryFile) Truncate(n int64) error { f.Buffer.Truncate(int(n)); return nil }
func (f *memoryFile) Sync() error            { return nil }
func (f *memoryFile) Close() error           { f.closed = true; return nil }

var header = Header{Version: "test", Host: "host", Config: Config{Start: 1000, Seed: [2]uint64{1, 2}}}

// writeInMemory makes a Writer that leaves nothing out, and its file.
func writeInMemory(t testing.TB, o Options) (*memoryFile, *Writer) {
	t.Helper()
	f := new(memoryFile)
	w, err := NewWriter(f, header, o)
	if err != nil {
		t.Fatal(err)
	}
	w.disk.waits = true
	return f, w
}

// record writes inputs, and returns the file.
func record(t testing.TB, o Options, inputs ...input.Input) []byte {
	t.Helper()
	f, w := writeInMemory(t, o)
	for _, in := range inputs {
		w.Take(in)
	}
	if err := w.Close(); err != nil || !f.closed {
		t.Fatalf("closed %v, %v", f.closed, err)
	}
	if s := w.Status(); s.LeftOutBlocks != 0 || s.Bytes != int64(f.Len()) {
		t.Fatalf("%+v of %d bytes", s, f.Len())
	}
	return f.Bytes()
}

func open(t testing.TB, file []byte) *Reader {
	t.Helper()
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readAll returns all inputs, events one batch after the other joined, and the gaps.
func readAll(t testing.TB, r *Reader) (out []input.Input, gaps []Gap) {
	t.Helper()
	err := r.Inputs(func(in input.Input) error {
		out = join(out, input.Copy(in))
		return nil
	}, func(g Gap) error { gaps = append(gaps, g); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out, gaps
}

// join appends an input; Events are one batch with those before them, however they were given.
func join(to []input.Input, in input.Input) []input.Input {
	if v, ok := in.(*input.Events); ok && len(to) > 0 {
		if before, ok := to[len(to)-1].(*input.Events); ok {
			before.Events = append(before.Events, v.Events...)
			return to
		}
	}
	return append(to, in)
}

// compare finds the first input that is another.
func compare(t *testing.T, got, want []input.Input) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		g, isEvents := got[i].(*input.Events)
		w, ok := want[i].(*input.Events)
		if !isEvents || !ok || len(g.Events) != len(w.Events) {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("input %d is %s, want %s", i, text(got[i]), text(want[i]))
			}
			continue
		}
		for k := range g.Events {
			if g.Events[k] != w.Events[k] {
				t.Fatalf("event %d of input %d is\n%+v, want\n%+v", k, i, g.Events[k], w.Events[k])
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d inputs, want %d", len(got), len(want))
	}
}

func text(in input.Input) string {
	s := fmt.Sprintf("%T%+v", in, in)
	return s[:min(len(s), 300)]
}

// filled returns an input of each type but Events and Stack, with something in each of its fields.
func filled(r *rand.Rand) (out []input.Input) {
	for tag := byte(1); int(tag) < 64; tag++ {
		if t := others[tag]; t != nil {
			v := reflect.New(t).Elem()
			fill(v, r, 0)
			out = append(out, v.Interface().(input.Input))
		}
	}
	var names input.Names
	fill(reflect.ValueOf(&names).Elem(), r, 0)
	more := names
	more.Stack, more.Frames = r.Uint64(), append(names.Frames[1:], names.Frames...)
	return append(out, names, more)
}

func fill(v reflect.Value, r *rand.Rand, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r, depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fill(v.Index(i), r, depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), r, depth+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r, depth+1)
	case reflect.String:
		v.SetString(fmt.Sprintf("name \x00 of %d ü", r.IntN(1000)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64N(1 << 40))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(r.IntN(200)))
	case reflect.Uint32:
		v.SetUint(uint64(r.Uint32()))
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	default:
		panic(v.Kind())
	}
}

// anything returns an event of any fields.
func anything(r *rand.Rand, time uint64) event.Event {
	some := func() uint64 { return r.Uint64() >> r.IntN(64) * uint64(r.IntN(2)) }
	return event.Event{
		Time: time, Addr: some(), Size: some(), Old: some(), Began: some(), Stack: event.StackID(some()), PID: uint32(some()),
		TID: uint32(some()), Child: uint32(some()), CPU: uint16(some()), Kind: event.Kind(r.IntN(18)), Flags: event.Flags(r.IntN(256)),
	}
}

// A heap makes events as a program's allocator does.
type heap struct {
	r    *rand.Rand
	time uint64
	live []uint64
	free []uint64
	top  uint64
}

func (h *heap) address() uint64 {
	if n := len(h.free); n > 0 && h.r.IntN(4) > 0 {
		a := h.free[n-1]
		h.free = h.free[:n-1]
		return a
	}
	h.top += 16 * (2 + h.r.Uint64N(20))
	return h.top
}

func (h *heap) take(latest int) uint64 {
	k := len(h.live) - 1 - h.r.IntN(min(latest, len(h.live)))
	a := h.live[k]
	h.live = append(h.live[:k], h.live[k+1:]...)
	return a
}

func (h *heap) event() event.Event {
	h.time += 20 + h.r.Uint64N(2000)
	e := event.Event{Time: h.time, PID: 77, TID: 77 + h.r.Uint32N(3), CPU: uint16(h.r.IntN(2))}
	latest := 6
	if h.r.IntN(8) == 0 {
		latest = 1000
	}
	switch n := h.r.IntN(20); {
	case len(h.live) < 10 || n < 9:
		e.Kind, e.Addr = event.Alloc, h.address()
		h.live = append(h.live, e.Addr)
	case n < 17:
		e.Kind, e.Addr = event.Free, h.take(latest)
		h.free = append(h.free, e.Addr)
	case n < 19:
		e.Kind, e.Old, e.Began = event.Realloc, h.take(latest), h.time-15
		if e.Addr = e.Old; h.r.IntN(2) == 0 {
			e.Addr = h.address()
			h.free = append(h.free, e.Old)
		}
		h.live = append(h.live, e.Addr)
	default:
		e.Kind, e.Addr = event.Fault, h.top&^4095
	}
	if e.Kind == event.Alloc || e.Kind == event.Realloc {
		e.Stack, e.Size = event.StackID(1+h.r.IntN(50))*0x9e3779b97f4a7c15, 16*(1+h.r.Uint64N(12))
	}
	return e
}

func newHeap(seed uint64) *heap {
	return &heap{r: rand.New(rand.NewPCG(seed, 1)), time: 2000, top: 0x55550000}
}

// someStack is a stack beside the others: deep ones share what is outside.
func someStack(r *rand.Rand, time uint64) input.Stack {
	s := event.Stack{
		ID: event.StackID(r.Uint64()), Time: time, PID: 77, Truncated: r.IntN(2) == 0, Deeper: r.IntN(2) == 0, FPGuess: r.IntN(2) == 0, Bottom: r.IntN(2) == 0,
		Frames: make([]uint64, r.IntN(12)),
	}
	for i := range s.Frames {
		s.Frames[i] = 0x400000 + uint64(len(s.Frames)-i)*0x100 + uint64(r.IntN(2))*0x10
	}
	return input.Stack{Stack: s}
}

// stream is a long stream of everything.
func stream(seed uint64, steps int) (out []input.Input) {
	h := newHeap(seed)
	for range steps {
		switch n := h.r.IntN(20); {
		case n < 10:
			batch := make([]event.Event, 1+h.r.IntN(3000))
			for i := range batch {
				if batch[i] = h.event(); h.r.IntN(50) == 0 {
					batch[i] = anything(h.r, h.time)
				}
			}
			out = join(out, &input.Events{Events: batch})
		case n < 16:
			out = append(out, someStack(h.r, h.time-h.r.Uint64N(100)))
		case n < 19:
			h.time += 2e8
			out = append(out, input.Window{Now: h.time})
		default:
			out = append(out, filled(h.r)...)
		}
	}
	return out
}

// Whatever is written is read back: usual events, those that no tracer gives, all kinds of inputs in all their fields.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, level := range Levels() {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(5) {
				want := stream(seed, 200)
				r := open(t, record(t, Options{Level: level}, want...))
				got, gaps := readAll(t, r)
				compare(t, got, want)
				if len(gaps) != 0 || !r.Closed() || !reflect.DeepEqual(*r.Header(), header) {
					t.Errorf("gaps %v, closed %v, header %+v", gaps, r.Closed(), r.Header())
				}
			}
		})
	}
}

// Every type of input has a tag.
func TestEveryInputHasATag(t *testing.T) {
	t.Parallel()
	if n := len(filled(rand.New(rand.NewPCG(1, 1)))); n != len(others)+2 || n != 23 {
		t.Errorf("%d of %d types", n, len(others))
	}
}

// Times that go back, as no trace has them, are read back.
func TestTimesGoBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	var events []event.Event
	for range 1000 {
		events = append(events, anything(r, r.Uint64()))
	}
	want := []input.Input{&input.Events{Events: events}}
	got, _ := readAll(t, open(t, record(t, Options{}, want...)))
	compare(t, got, want)
}

var _ io.Writer = (*memoryFile)(nil)

// The codes of freed addresses are what docs/recording-format.md says, by which others read a recording.
func TestFreeCodes(t *testing.T) {
	t.Parallel()
	file := record(t, Options{Level: "none"}, &input.Events{Events: []event.Event{
		{Kind: event.Alloc, Time: 1, PID: 1, TID: 1, Addr: 0x100, Size: 8},
		{Kind: event.Free, Time: 2, PID: 1, TID: 1, Addr: 0x100},
		{Kind: event.Free, Time: 3, PID: 1, TID: 1},
		{Kind: event.Free, Time: 4, PID: 1, TID: 1, Addr: 0x900},
	}})
	at, heads := blocksOf(t, file)
	for i, h := range heads {
		if h.kind != kindInputs {
			continue
		}
		var cols [columns]column
		if err := takeApart(file[at[i]+headSize:][:h.stored], &cols); err != nil {
			t.Fatal(err)
		}
		if got, want := cols[colFrees].b, []byte{0, 14, 15}; !bytes.Equal(got, want) {
			t.Errorf("codes %d, want %d", got, want)
		}
	}
	if freeAge != 13 {
		t.Errorf("the code of an older block is %d, and the document has 13", freeAge)
	}
}
