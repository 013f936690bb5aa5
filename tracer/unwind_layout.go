package tracer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// Limits that bpf/headers/unwind_maps.h shares.
const (
	maxSegments = 8191 // of one process
	spaceIDBits = 26
)

// maxVDSO bounds what is read of the target's memory as its vDSO.
const maxVDSO = 64 << 10

// space is what the kernel knows of one process's code.
type space struct {
	mappings []probe.Mapping
	account  account
	files    []use
	layout   charged // its head and segments
	previous charged // of the layout before: a stack walk may still use it
}

// charged is a run of entries, and who is charged for it.
type charged struct {
	extent
	account account
}

// spaces keeps the kernel's idea of each process's code. Its methods may be
// called concurrently.
type spaces struct {
	mu       sync.Mutex
	tables   *tableStore
	spaces   *ebpf.Map
	segments *ebpf.Map
	stops    *ebpf.Map
	room     extents // of segments
	shares   *quota  // of those
	places   *quota  // of spaces
	known    map[int]*space
	pidSet   sync.Map // the keys of known, to be read while mu is held for long
	lastID   uint64
	problems problems
}

func newSpaces(maps map[string]*ebpf.Map, cache FileCache) (*spaces, error) {
	tables, err := newTableStore(maps[bpf.MemtraceMapTables], maps[bpf.MemtraceMapRules], cache)
	if err != nil {
		return nil, err
	}
	return &spaces{
		shares:   newQuota(uint64(maps[bpf.MemtraceMapSegments].MaxEntries())),
		places:   newQuota(uint64(maps[bpf.MemtraceMapSpaces].MaxEntries())),
		problems: newProblems(),
		tables:   tables,
		spaces:   maps[bpf.MemtraceMapSpaces],
		segments: maps[bpf.MemtraceMapSegments],
		stops:    maps[bpf.MemtraceMapStoppable],
		room:     extents{limit: maps[bpf.MemtraceMapSegments].MaxEntries()},
		known:    make(map[int]*space),
	}, nil
}

// reload makes the kernel know the code of process pid as it is mapped now,
// and reports whether that changed anything.
func (s *spaces) reload(pid int) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, _, err = s.update(pid)
	return changed, err
}

// knows reports whether process pid is one whose code is kept up with.
func (s *spaces) knows(pid int) bool {
	_, ok := s.pidSet.Load(pid)
	return ok
}

// pids returns the processes whose code is kept up with.
func (s *spaces) pids() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.known))
}

// load is reload, and waits until all tables are there. It returns the code that the kernel knows from then on, as it
// was listed last.
func (s *spaces) load(pid int) (listed listing, err error) {
	s.mu.Lock()
	_, listed, err = s.update(pid)
	s.mu.Unlock()
	return listed, errors.Join(err, s.tables.wait()) // others go on meanwhile
}

// listing is what code a process had mapped at a time.
type listing struct {
	mappings []probe.Mapping // nil: it is not known
	at       uint64          // ns, CLOCK_MONOTONIC: before it was read
}

func (s *spaces) update(pid int) (changed bool, listed listing, err error) {
	// The mappings may change while they are read and installed; an exec takes
	// the space away in between. A process that never rests is left as it is.
	const tries = 4
	for range tries {
		at := monotonic()
		mappings, err := probe.Executable("/proc", pid)
		if err != nil {
			return changed, listing{}, err
		}
		if s.current(pid, mappings) {
			return changed, listing{mappings, at}, nil
		}
		changed = true
		if err := s.install(pid, mappings); err != nil {
			return changed, listing{}, fmt.Errorf("install the unwinding tables of process %d: %w", pid, err)
		}
	}
	return changed, listing{}, nil
}

// current reports whether the kernel knows these mappings already.
func (s *spaces) current(pid int, mappings []probe.Mapping) bool {
	old := s.known[pid]
	if old == nil || !slices.Equal(old.mappings, mappings) {
		return false
	}
	var word uint64
	return s.spaces.Lookup(uint32(pid), &word) == nil
}

func (s *spaces) install(pid int, mappings []probe.Mapping) error {
	next := &space{mappings: mappings, account: processAccount(pid)}
	if !s.places.take(next.account.forSystem(), 1) {
		return fmt.Errorf("%w: %v has too many processes", errNoRoom, next.account)
	}
	segments := s.fit(pid, next.account.forSystem(), s.layout(pid, next))
	s.lastID = (s.lastID + 1) & (1<<spaceIDBits - 1)
	s.lastID = max(s.lastID, 1) // 0 is none
	err := s.installLayout(next, s.lastID, segments)
	if err == nil {
		word := uint64(uint32(pid)) | uint64(next.layout.first)<<22 | s.lastID<<38
		err = s.spaces.Put(uint32(pid), word)
	}
	if err == nil {
		err = s.stops.Put(uint32(pid), uint32(stopsPerLayout))
	}
	if err != nil {
		s.release(next)
		return err
	}
	old := s.known[pid]
	s.known[pid] = next
	s.pidSet.Store(pid, nil)
	if old != nil {
		next.previous, old.layout = old.layout, charged{}
		s.release(old)
	}
	return nil
}

func (s *spaces) installLayout(next *space, id uint64, segments []bpf.MemtraceUnwindSegment) (err error) {
	n := uint32(len(segments) + 1)
	a := next.account.forSystem()
	if !s.shares.take(a, uint64(n)) {
		return errNoRoom
	}
	if next.layout.extent, err = s.room.take(n); err != nil {
		s.shares.give(a, uint64(n))
		return err
	}
	next.layout.account = a
	// The head comes last: it makes the rest valid.
	for i := range segments {
		if err := s.segments.Put(next.layout.first+1+uint32(i), &segments[i]); err != nil {
			return err
		}
	}
	return s.segments.Put(next.layout.first, &bpf.MemtraceUnwindSegment{Start: id, End: uint64(len(segments))})
}

// fit leaves out what an account has no room for: first mappings without a table.
func (s *spaces) fit(pid int, a account, segments []bpf.MemtraceUnwindSegment) []bpf.MemtraceUnwindSegment {
	room := int(s.shares.room(a)) - 1
	if len(segments) <= room {
		return segments
	}
	s.problems.add(a, fmt.Sprintf("process %d has %d executable mappings, and %v room for %d: stacks through the others break off",
		pid, len(segments), a, max(room, 0)))
	segments = slices.DeleteFunc(segments, func(x bpf.MemtraceUnwindSegment) bool { return x.Table == 0 })
	return segments[:min(len(segments), max(room, 0))]
}

// layout turns mappings into what the kernel looks addresses up in. A file
// that can't be read leaves its mapping without a table.
func (s *spaces) layout(pid int, next *space) []bpf.MemtraceUnwindSegment {
	var out []bpf.MemtraceUnwindSegment
	var unread []unreadCode
	var last readCode
	for _, m := range next.mappings {
		if len(out) >= maxSegments {
			s.problems.add(next.account, fmt.Sprintf("process %d has more than %d executable mappings: stacks through the others break off", pid, maxSegments))
			break
		}
		if !last.serves(m) {
			last = s.code(pid, next.account, m)
			if u := last.use; u.codeFile != nil {
				next.files = append(next.files, u)
				if u.problem != "" {
					s.problems.add(u.account, m.Path+": "+u.problem)
				}
			}
		}
		if last.err != nil {
			unread = append(unread, unreadCode{m, last.err})
		}
		out = append(out, last.codeFile.place(m)...)
	}
	for _, err := range stillMapped(unread, func() ([]probe.Mapping, error) { return probe.Executable("/proc", pid) }) {
		s.problems.add(next.account, fmt.Sprintf("%v: stacks through its code lean on frame pointers", err))
	}
	return out[:min(len(out), maxSegments)]
}

// unreadCode is a mapping that could not be read.
type unreadCode struct {
	mapping probe.Mapping
	err     error
}

// stillMapped returns why mappings could not be read that a process still has: it may have ended or executed another
// program meanwhile. What it has is listed once for all of them. A process may have thousands that can't be read, and
// others wait for their tables meanwhile.
func stillMapped(unread []unreadCode, list func() ([]probe.Mapping, error)) (why []error) {
	if len(unread) == 0 {
		return nil
	}
	now, err := list()
	if err != nil {
		return nil
	}
	mapped := make(map[probe.Mapping]bool, len(now))
	for _, m := range now {
		mapped[m] = true
	}
	for _, u := range unread {
		if mapped[u.mapping] {
			why = append(why, u.err)
		}
	}
	return why
}

// readCode is what was read for a mapping.
type readCode struct {
	use    // none where it is no file of code
	of     probe.Mapping
	opened bool // its file
	err    error
}

// serves reports whether the same was read for another mapping: a program may map thousands of parts of one file.
func (r readCode) serves(m probe.Mapping) bool {
	return r.opened && m.Inode == r.of.Inode && m.Major == r.of.Major && m.Minor == r.of.Minor && m.Path == r.of.Path
}

// code returns the tables for a mapping.
func (s *spaces) code(pid int, a account, m probe.Mapping) readCode {
	r := readCode{of: m}
	switch {
	case m.Path == "[vdso]":
		var data []byte
		if data, r.err = readVDSO(pid, m); r.err == nil {
			r.use, r.err = s.tables.image(data, a)
		}
	case m.Inode != 0:
		f, err := m.Open("/proc", pid)
		if err != nil {
			r.err = fmt.Errorf("open %s: %w", m.Path, err)
			return r
		}
		defer f.Close()
		r.opened = true
		if r.use, err = s.tables.file(pid, a, f); err != nil {
			r.use, r.err = use{}, fmt.Errorf("unwinding tables of %s: %w", m.Path, err)
		}
	}
	return r
}

func readVDSO(pid int, m probe.Mapping) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", probe.LivingThread("/proc", pid)))
	if err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	defer f.Close()
	data := make([]byte, min(m.End-m.Start, maxVDSO))
	if _, err := f.ReadAt(data, int64(m.Start)); err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	return data, nil
}

// place returns the mapping as segments, each with its place in its table. The
// kernel maps whole pages, from before a file's first byte to after its last.
func (c *codeFile) place(m probe.Mapping) []bpf.MemtraceUnwindSegment {
	var out []bpf.MemtraceUnwindSegment
	if c != nil {
		for _, s := range c.segments {
			// In two steps: what the file says may be near the end of all numbers.
			if s.slot == 0 || s.Offset > m.Offset && s.Offset-m.Offset >= m.End-m.Start || s.Offset <= m.Offset && m.Offset-s.Offset >= s.Size {
				continue
			}
			at := m.Start + max(s.Offset, m.Offset) - m.Offset
			linked := s.Address - s.Offset + m.Offset + at - m.Start
			out = append(out, bpf.MemtraceUnwindSegment{
				Start: at, Table: s.slot, Serial: s.serial,
				Offset: linked - s.Table.Text.Start, // may wrap: what is before the table has no page in it
			})
		}
	}
	if len(out) == 0 {
		return []bpf.MemtraceUnwindSegment{{Start: m.Start, End: m.End}}
	}
	slices.SortFunc(out, func(a, b bpf.MemtraceUnwindSegment) int { return cmp.Compare(a.Start, b.Start) })
	// The first begins with the mapping, each ends where the next one begins.
	out[0].Offset -= out[0].Start - m.Start
	out[0].Start = m.Start
	for i := range out {
		out[i].End = m.End
		if i+1 < len(out) {
			out[i].End = out[i+1].Start
		}
	}
	return out
}

// release gives up what a space holds in the kernel.
func (s *spaces) release(old *space) {
	for _, u := range old.files {
		s.tables.release(u)
	}
	s.places.give(old.account.forSystem(), 1)
	for _, x := range []charged{old.layout, old.previous} {
		s.room.give(x.extent)
		s.shares.give(x.account, uint64(x.n))
	}
}

// forget frees what was loaded for process pid.
func (s *spaces) forget(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, m := range []*ebpf.Map{s.spaces, s.stops} {
		if e := m.Delete(uint32(pid)); !errors.Is(e, ebpf.ErrKeyNotExist) { // it has exited
			err = errors.Join(err, e)
		}
	}
	if old := s.known[pid]; old != nil {
		delete(s.known, pid)
		s.pidSet.Delete(pid)
		s.release(old)
	}
	return err
}
