package blocks

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// A field of a message: a number, or bytes.
type field struct {
	number int
	value  uint64
	bytes  []byte
}

// fields takes a message apart by the rules of the wire format.
func fields(t *testing.T, b []byte) (out []field) {
	t.Helper()
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatalf("no number in % x", b)
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		tag := number()
		f := field{number: int(tag >> 3)}
		switch tag & 7 {
		case wireVarint:
			f.value = number()
		case wireBytes:
			n := number()
			f.bytes, b = b[:n], b[n:]
		default:
			t.Fatalf("wire type %d", tag&7)
		}
		out = append(out, f)
	}
	return out
}

// message is the fields of a message that stand once, by number, and all of one that repeats.
func (f field) message(t *testing.T, repeated int) (once map[int]field, all []field) {
	t.Helper()
	once = make(map[int]field)
	for _, one := range fields(t, f.bytes) {
		if one.number == repeated {
			all = append(all, one)
		} else {
			once[one.number] = one
		}
	}
	return once, all
}

// A traceReader goes by the rules of trace_processor's importers: profile_packet_sequence_state.cc,
// stack_profile_sequence_state.cc.
type traceReader struct {
	t         *testing.T
	strings   map[int]map[uint64]string // by field and number
	mappings  map[uint64][2]string      // path, build ID
	frames    map[uint64]string         // function, in file
	identity  map[uint64]string         // by which the reader tells frames apart
	stacks    map[uint64][]uint64
	before    map[string][4]uint64
	sums      map[uint64]map[string]*sums // by PID and innermost function
	processes map[uint64]string           // name by track
	tracks    map[uint64]string
	counters  map[string][]uint64
	index     uint64
	profiles  map[uint64]int
	time      map[uint64]uint64 // the latest of a track
}

func readPerfetto(t *testing.T, trace []byte) *traceReader {
	t.Helper()
	r := &traceReader{
		t: t, strings: make(map[int]map[uint64]string), mappings: make(map[uint64][2]string), frames: make(map[uint64]string),
		identity: make(map[uint64]string), stacks: make(map[uint64][]uint64), before: make(map[string][4]uint64),
		sums: make(map[uint64]map[string]*sums), processes: make(map[uint64]string), tracks: make(map[uint64]string),
		counters: make(map[string][]uint64), profiles: make(map[uint64]int), time: make(map[uint64]uint64),
	}
	for i, p := range fields(t, trace) {
		packet, _ := p.message(t, -1)
		want := uint64(stateNeeded)
		if i == 0 {
			want = stateCleared
		}
		if p.number != tracePacket || packet[packetSequence].value != 1 || packet[packetFlags].value != want {
			t.Fatalf("packet %d: %+v", i, packet)
		}
		r.packet(packet)
	}
	return r
}

func (r *traceReader) packet(packet map[int]field) {
	t := r.t
	at := packet[packetTime].value
	if f, ok := packet[packetInterned]; ok {
		for _, one := range fields(t, f.bytes) {
			r.intern(one)
		}
	}
	if f, ok := packet[packetTrack]; ok {
		track, _ := f.message(t, -1)
		if of, ok := track[3]; ok {
			process, _ := of.message(t, -1)
			r.processes[track[1].value] = fmt.Sprintf("%s %d", process[6].bytes, process[1].value)
		} else {
			r.tracks[track[1].value] = r.processes[track[5].value] + " " + string(track[2].bytes)
		}
	}
	if f, ok := packet[packetTrackEvent]; ok {
		e, _ := f.message(t, -1)
		track := e[11].value
		if r.tracks[track] == "" || e[9].value != typeCount || at < r.time[track] {
			t.Errorf("a counter %v at %d", e, at)
		}
		r.time[track] = at
		r.counters[r.tracks[track]] = append(r.counters[r.tracks[track]], e[30].value)
	}
	if f, ok := packet[packetProfile]; ok {
		profile, dumps := f.message(t, 5)
		if profile[7].value != r.index || len(dumps) != 1 {
			t.Errorf("profile %d, want %d", profile[7].value, r.index)
		}
		r.index++
		r.dump(at, dumps[0])
	}
}

func (r *traceReader) intern(f field) {
	one, _ := f.message(r.t, -1)
	iid := one[1].value
	switch f.number {
	case internedMappings:
		path, ok := r.strings[internedPaths][one[7].value]
		build, ok2 := r.strings[internedBuildIDs][one[2].value]
		if !ok || !ok2 {
			r.t.Errorf("mapping %d has no name", iid)
		}
		r.mappings[iid] = [2]string{path, fmt.Sprintf("%x", build)}
	case internedFrames:
		name, ok := r.strings[internedFunctions][one[2].value]
		mapping, ok2 := r.mappings[one[3].value]
		if _, has := one[4]; !ok || !ok2 || !has {
			r.t.Errorf("frame %d: %v", iid, one)
		}
		r.frames[iid] = name
		r.identity[iid] = fmt.Sprint(name, mapping, one[4].value)
	case internedStacks:
		_, frames := f.message(r.t, 2)
		for _, one := range frames {
			if r.frames[one.value] == "" {
				r.t.Errorf("stack %d has an unknown frame %d", iid, one.value)
			}
			r.stacks[iid] = append(r.stacks[iid], one.value)
		}
	default:
		if r.strings[f.number] == nil {
			r.strings[f.number] = make(map[uint64]string)
		}
		r.strings[f.number][iid] = string(one[2].bytes)
	}
}

// dump takes sums since the start as changes since the dump before, of one stack and process. They must not fall.
func (r *traceReader) dump(at uint64, f field) {
	head, samples := f.message(r.t, 2)
	pid := head[1].value
	r.profiles[pid]++
	if head[9].value != at || string(head[11].bytes) != "malloc" {
		r.t.Errorf("%v at %d", head, at)
	}
	for _, s := range samples {
		one, _ := s.message(r.t, -1)
		stack := r.stacks[one[1].value]
		if len(stack) == 0 {
			r.t.Fatalf("no stack %d", one[1].value)
		}
		key := fmt.Sprint(pid)
		for _, frame := range stack {
			key += "," + r.identity[frame]
		}
		now, before := [4]uint64{one[2].value, one[3].value, one[5].value, one[6].value}, r.before[key]
		for i := range now {
			if now[i] < before[i] {
				r.t.Errorf("%s fell from %v to %v", key, before, now)
			}
		}
		r.before[key] = now
		r.count(pid, r.frames[stack[len(stack)-1]], before, now)
	}
}

func (r *traceReader) count(pid uint64, leaf string, before, now [4]uint64) {
	if r.sums[pid] == nil {
		r.sums[pid] = make(map[string]*sums)
	}
	if r.sums[pid][leaf] == nil {
		r.sums[pid][leaf] = &sums{}
	}
	s := r.sums[pid][leaf]
	s.allocBytes += now[0] - before[0]
	s.allocs += now[2] - before[2]
	s.frees += now[3] - before[3]
	s.liveBytes += now[0] - before[0] - (now[1] - before[1])
}

func TestPerfettoHasAllSums(t *testing.T) {
	t.Parallel()
	s := twoProcesses(20_000)
	trace, notes := s.write(t, Options{Format: Perfetto})
	r := readPerfetto(t, trace)
	for pid, b := range s.books {
		compareLeaves(t, r.sums[uint64(pid)], b.byLeaf)
		if n := r.profiles[uint64(pid)]; n < perfettoDumps/2 || n > perfettoDumps+1 {
			t.Errorf("%d profiles", n)
		}
	}
	for name, b := range map[string]*book{"first 100": s.books[100], "second 200": s.books[200]} {
		heap := r.counters[name+" live heap"]
		if slices.Max(heap) != b.peak || heap[len(heap)-1] != b.held {
			t.Errorf("%s peaks at %d, want %d; ends at %d, want %d", name, slices.Max(heap), b.peak, heap[len(heap)-1], b.held)
		}
		if got := r.counters[name+" RSS"]; !slices.Equal(got, b.rss) {
			t.Errorf("%s: RSS %v, want %v", name, got, b.rss)
		}
	}
	if len(notes) != 0 || !slices.Contains(mappings(r), "/usr/bin/program 0123456789abcdef0123456789abcdef01234567") {
		t.Errorf("%q, %v", notes, mappings(r))
	}
}

func mappings(r *traceReader) (out []string) {
	for _, m := range r.mappings {
		out = append(out, m[0]+" "+m[1])
	}
	return out
}

// Stacks that the reader takes for one have one sum: else it refuses them.
func TestPerfettoAddsUpWhatItsReaderTakesForOne(t *testing.T) {
	t.Parallel()
	s := newScene(11)
	s.name = func(uint32, uint64) string { return "same" }
	b := s.process(100, "program", 6)
	s.run(b, 2000, 6)
	s.end()
	for _, in := range s.inputs { // as a just in time compiler's code: no address in a file, other lines
		if names, ok := in.(input.Names); ok {
			names.Frames[0].Offset = 0
		}
	}
	trace, _ := s.write(t, Options{Format: Perfetto})
	if got := readPerfetto(t, trace).sums[100]["same"]; *got != b.sum {
		t.Errorf("%+v, want %+v", *got, b.sum)
	}
}

// One PID of two processes is one to Perfetto.
func TestPerfettoOfAReusedPID(t *testing.T) {
	t.Parallel()
	s := newScene(13)
	first := s.process(100, "first", 3)
	s.run(first, 300, 3)
	s.event(event.Event{PID: 100, TID: 100, Kind: event.Exit})
	second := s.process(100, "second", 3)
	s.run(second, 300, 3)
	s.end()
	trace, notes := s.write(t, Options{Format: Perfetto})
	var got uint64
	for _, sum := range readPerfetto(t, trace).sums[100] {
		got += sum.allocs
	}
	if got != first.sum.allocs+second.sum.allocs || !strings.Contains(strings.Join(notes, "\n"), "PID 100 was that of two processes") {
		t.Errorf("%d allocations, want %d and %d; %q", got, first.sum.allocs, second.sum.allocs, notes)
	}
}
