package blocks

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
)

// perfettoDumps is how many heap profiles the course of a recording is divided into.
const perfettoDumps = 100

// Numbers of fields in Perfetto's messages. Source: protos/perfetto/trace in the repository of Perfetto.
const (
	tracePacket = 1 // of Trace

	packetClocks      = 6
	packetTime        = 8
	packetSequence    = 10
	packetTrackEvent  = 11
	packetInterned    = 12
	packetFlags       = 13
	packetProfile     = 37
	packetClock       = 58
	packetTrack       = 60
	packetFirst       = 87
	internedFunctions = 5
	internedFrames    = 6
	internedStacks    = 7
	internedBuildIDs  = 16
	internedPaths     = 17
	internedSources   = 18
	internedMappings  = 19
)

const (
	clockMonotonic = 3
	clockCoarse    = 4 // heap profiles state their times by it
	clockBoot      = 6

	stateCleared = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	stateNeeded  = 2 // SEQ_NEEDS_INCREMENTAL_STATE

	sequence   = 1
	typeCount  = 4 // TrackEvent.TYPE_COUNTER
	unitOfSize = 3 // CounterDescriptor.UNIT_SIZE_BYTES
)

// A perfettoTrace is a trace that is being written: first all stacks, then, as time goes on, counters and heap
// profiles. A profile has, of each process and stack that something happened at since the one before, what was
// allocated and freed there in all.
type perfettoTrace struct {
	out    *bufio.Writer
	survey *survey
	course *course
	stacks []int // by node: the one that the reader takes for the same
	sums   map[stackOf]*stackSums
	bySite []*stackSums // the sums that each site's block before was in
	tracks map[trackOf]bool
	packet message
	index  uint64 // of the next profile
	step   uint64
	next   uint64 // ns since Config.Start: the next profile
}

// A stackOf is a stack of a process, by its PID: the reader knows no other name of it.
type stackOf struct {
	pid   uint32
	stack int
}

// stackSums are cumulative.
type stackSums struct {
	pid          uint32
	alloc, freed weight
	changed      bool
}

// A trackOf is a counter of a process.
type trackOf struct {
	process, counter int
}

// The counters.
const (
	counterHeap = iota
	counterRSS
	counterSwap
)

var counterNames = [...]string{"live heap", "RSS", "swap"}

func writePerfetto(out *bufio.Writer, play Source, s *survey) error {
	t := &perfettoTrace{
		out: out, survey: s, stacks: alike(s.stacks), sums: make(map[stackOf]*stackSums), tracks: make(map[trackOf]bool),
		bySite: make([]*stackSums, len(s.stacks.sites)), step: max(s.last/perfettoDumps, 1),
	}
	t.next = t.step
	t.course = newCourse(s, perfettoDumps*courseSteps, func(p *process, at, bytes uint64) { t.count(p, counterHeap, at, bytes) })
	t.begin()
	t.writeStacks()
	for _, p := range s.list {
		t.writeProcess(p)
		s.noteSampled(p)
		if s.byPID[p.key.pid] != p {
			s.note("PID %d was that of two processes, one after the other: Perfetto shows their blocks as one's", p.key.pid)
		}
	}
	if err := s.follow(play, t); err != nil {
		return err
	}
	t.course.end(s.last)
	t.dump(s.last)
	return nil
}

// alike says of each stack which one the reader takes for the same. It tells frames apart by their file, address and
// name, and refuses sums of one stack that come as two.
func alike(t *stackTree) []int {
	out := make([]int, len(t.nodes))
	first := make(map[node]int)
	frames := make(map[frame]int)
	for i, n := range t.nodes {
		f := t.frames[n.frame]
		f.file, f.line = "", 0
		of, ok := frames[f]
		if !ok {
			of = n.frame
			frames[f] = of
		}
		key := node{of, -1}
		if n.parent >= 0 {
			key.parent = out[n.parent]
		}
		if _, ok := first[key]; !ok {
			first[key] = i
		}
		out[i] = first[key]
	}
	return out
}

// absolute is a time by CLOCK_MONOTONIC. None is 0, which would be none.
func (t *perfettoTrace) absolute(at uint64) uint64 { return max(t.survey.options.Config.Start+at, 1) }

// send writes a packet of the one sequence. Its time is by CLOCK_MONOTONIC; 0: it has none.
func (t *perfettoTrace) send(time, flags uint64, fill func(m *message)) {
	m := t.packet[:0]
	if time != 0 {
		m.number(packetTime, time)
		m.number(packetClock, clockMonotonic)
	}
	m.number(packetSequence, sequence)
	m.number(packetFlags, flags)
	fill(&m)
	t.packet = m
	head := binary.AppendUvarint([]byte{tracePacket<<3 | wireBytes}, uint64(len(m)))
	t.out.Write(head)
	t.out.Write(m)
}

// begin says which clock times are of. What the others show is not known; that they show the same puts all
// times on the one of the recording.
func (t *perfettoTrace) begin() {
	t.send(0, stateCleared, func(m *message) {
		m.number(packetFirst, 1)
		var clocks message
		for _, id := range []uint64{clockMonotonic, clockCoarse, clockBoot} {
			var one message
			one.number(1, id)
			one.always(2, t.absolute(0))
			clocks.bytes(1, one)
		}
		clocks.number(2, clockMonotonic)
		m.bytes(packetClocks, clocks)
	})
}

// internedEach is how many stacks go into a packet: readers hold one whole.
const internedEach = 1 << 10

func (t *perfettoTrace) writeStacks() {
	w := perfettoInterner{trace: t, functions: newIndex(), paths: newIndex(), builds: newIndex(), sources: newIndex(), mappings: make(map[[2]uint64]uint64)}
	for i := range t.survey.stacks.frames {
		w.frame(uint64(i)+1, &t.survey.stacks.frames[i])
		w.flush(i%internedEach == internedEach-1)
	}
	w.flush(true)
	nodes := t.survey.stacks.nodes
	done := make(map[int]bool)
	for _, at := range t.survey.stacks.sites {
		if at < 0 {
			continue
		}
		if at = t.stacks[at]; !done[at] {
			done[at] = true
			w.stack(uint64(at)+1, nodes)
			w.flush(len(done)%internedEach == 0)
		}
	}
	w.flush(true)
}

// A perfettoInterner collects interned data: strings and mappings go before the frames that name them.
type perfettoInterner struct {
	trace                             *perfettoTrace
	functions, paths, builds, sources *index
	mappings                          map[[2]uint64]uint64 // by path and build ID
	data                              message
}

// intern is the number of a string, from 1 on.
func (w *perfettoInterner) intern(field int, x *index, s, raw string) uint64 {
	at, isNew := x.add(s)
	if isNew {
		w.data.interned(field, uint64(at)+1, raw)
	}
	return uint64(at) + 1
}

func (w *perfettoInterner) frame(iid uint64, f *frame) {
	function := w.intern(internedFunctions, w.functions, f.name, f.name)
	mapping := w.mapping(f)
	var source uint64
	if f.file != "" {
		source = w.intern(internedSources, w.sources, f.file, f.file)
	}
	var m message
	m.number(1, iid)
	m.number(2, function)
	m.number(3, mapping)
	m.always(4, f.offset)
	m.number(5, source)
	m.number(6, uint64(f.line))
	w.data.bytes(internedFrames, m)
}

// mapping is the number of a file. A Report knows addresses within files, and no mappings: it has no range, and
// the address in the file is the one relative to it. A frame without a file has one without a name, as older readers
// leave out frames that have none.
func (w *perfettoInterner) mapping(f *frame) uint64 {
	raw, err := hex.DecodeString(f.buildID)
	if err != nil {
		raw = nil
	}
	path := w.intern(internedPaths, w.paths, f.module, f.module)
	build := w.intern(internedBuildIDs, w.builds, string(raw), string(raw))
	key := [2]uint64{path, build}
	iid, ok := w.mappings[key]
	if !ok {
		iid = uint64(len(w.mappings)) + 1
		w.mappings[key] = iid
		var m message
		m.number(1, iid)
		m.number(2, build)
		m.number(7, path)
		w.data.bytes(internedMappings, m)
	}
	return iid
}

// stack encodes a Callstack, whose outermost frame is first.
func (w *perfettoInterner) stack(iid uint64, nodes []node) {
	var frames []uint64
	for at := int(iid) - 1; at >= 0; at = nodes[at].parent {
		frames = append(frames, uint64(nodes[at].frame)+1)
	}
	var m message
	m.number(1, iid)
	for i := len(frames) - 1; i >= 0; i-- {
		m.always(2, frames[i])
	}
	w.data.bytes(internedStacks, m)
}

func (w *perfettoInterner) flush(now bool) {
	if !now || len(w.data) == 0 {
		return
	}
	w.trace.send(0, stateNeeded, func(m *message) { m.bytes(packetInterned, w.data) })
	w.data = w.data[:0]
}

// Tracks are numbered by process: its own, then its counters.
func processTrack(p *process) uint64 { return uint64(p.number+1) << 8 }

func (t *perfettoTrace) writeProcess(p *process) {
	t.send(t.absolute(0), stateNeeded, func(m *message) {
		var of, track message
		of.number(1, uint64(p.key.pid))
		of.text(6, p.comm())
		track.number(1, processTrack(p))
		track.bytes(3, of)
		m.bytes(packetTrack, track)
	})
}

// count gives a counter a value, and begins its track where it has none.
func (t *perfettoTrace) count(p *process, counter int, at, value uint64) {
	uuid := processTrack(p) + uint64(counter) + 1
	if k := (trackOf{p.number, counter}); !t.tracks[k] {
		t.tracks[k] = true
		t.send(t.absolute(0), stateNeeded, func(m *message) {
			var unit, track message
			unit.number(3, unitOfSize)
			track.number(1, uuid)
			track.text(2, counterNames[counter])
			track.number(5, processTrack(p))
			track.bytes(8, unit)
			m.bytes(packetTrack, track)
		})
	}
	t.send(t.absolute(at), stateNeeded, func(m *message) {
		var e message
		e.number(9, typeCount)
		e.number(11, uuid)
		e.always(30, value)
		m.bytes(packetTrackEvent, e)
	})
}

// pass dumps what happened until the end of a step, if that is over. Steps that nothing happened in have no dump.
func (t *perfettoTrace) pass(at uint64) {
	if at >= t.next {
		t.dump(t.next)
		t.next += (at - t.next + t.step) / t.step * t.step
	}
}

func (t *perfettoTrace) happened(b *happening) {
	t.pass(b.at)
	t.course.happened(b)
	s := t.sumsOf(b)
	w, sum := b.weight(), &s.alloc
	if b.end {
		sum = &s.freed
	}
	sum.bytes += w.bytes
	sum.count += w.count
	s.changed = true
}

func (t *perfettoTrace) sumsOf(b *happening) *stackSums {
	if s := t.bySite[b.Site]; s != nil && s.pid == b.PID {
		return s
	}
	k := stackOf{b.PID, t.stacks[t.survey.stacks.sites[b.Site]]}
	s := t.sums[k]
	if s == nil {
		s = &stackSums{pid: b.PID}
		t.sums[k] = s
	}
	t.bySite[b.Site] = s
	return s
}

func (t *perfettoTrace) told(in input.Input, at uint64) {
	t.pass(at)
	if m, ok := in.(input.Memory); ok && t.survey.byPID[m.PID] != nil {
		p := t.survey.byPID[m.PID]
		t.count(p, counterRSS, at, m.Usage.RSS)
		t.count(p, counterSwap, at, m.Usage.Swap)
	}
}

// dump writes a heap profile of each process that something has happened in.
func (t *perfettoTrace) dump(at uint64) {
	samples := make(map[uint32]message)
	for _, k := range slices.SortedFunc(maps.Keys(t.sums), stackOf.compare) {
		s := t.sums[k]
		if !s.changed {
			continue
		}
		s.changed = false
		var one message
		one.number(1, uint64(k.stack)+1)
		one.number(2, s.alloc.bytes)
		one.number(3, s.freed.bytes)
		one.number(5, s.alloc.blocks())
		one.number(6, s.freed.blocks())
		m := samples[k.pid]
		m.bytes(2, one)
		samples[k.pid] = m
	}
	for _, p := range t.survey.list {
		if m := samples[p.key.pid]; m != nil && t.survey.byPID[p.key.pid] == p {
			t.dumpProcess(p, at, m)
		}
	}
}

func (k stackOf) compare(o stackOf) int {
	return cmp.Or(cmp.Compare(k.pid, o.pid), cmp.Compare(k.stack, o.stack))
}

func (t *perfettoTrace) dumpProcess(p *process, at uint64, samples message) {
	time := t.absolute(at)
	t.send(time, stateNeeded, func(m *message) {
		of := samples
		of.number(1, uint64(p.key.pid))
		if !p.info.Attached {
			of.number(3, 1)
		}
		of.number(9, time)
		of.text(11, "malloc")
		of.number(12, 1) // what a sample stands for is in the figures
		var profile message
		profile.bytes(5, of)
		profile.number(7, t.index)
		m.bytes(packetProfile, profile)
	})
	t.index++
}
