package tracer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/unwind"
)

// innerMap is BPF_F_INNER_MAP (5.10): arrays of one array-of-maps may differ in size.
const innerMap = 0x1000

// fileIdentity tells one state of a file from others, by what only the kernel says.
type fileIdentity struct {
	device, inode uint64
	size          int64
	sec, nsec     int64 // of the last change: its owner can set that of the last modification, not this one
	process       int   // the only one that it counts for, where the file system is a program (FUSE); 0: all
	// partial: some of its tables or rules had no room, which is the lot of the account alone.
	partial bool
	account account
}

// codeFile is a file whose tables are in the kernel.
type codeFile struct {
	ids      []fileIdentity // the newest ones
	key      tableKey
	segments []codeSegment
	users    map[account]int // mappings
	payer    account         // who of them is charged
	bytes    uint64          // of tables
	slots    uint64          // of tables
	source   uint64          // of call frame information
	problem  string          // what of the file can't be had, "" if nothing
	partial  bool            // as there was no room
}

// use is one mapping's use of a file's tables.
type use struct {
	*codeFile
	account account
}

// maxIdentities bounds what is kept of files of one content.
const maxIdentities = 64

// codeSegment is an executable segment of a file.
type codeSegment struct {
	unwind.Segment
	slot, serial uint32 // of its table; slot 0: none
}

// tableStore keeps the tables of files in the kernel, each once for all
// processes that map it.
//
// An array of maps takes a change at once, but the system call that makes it
// returns only after all programs on all CPUs that might see what was there
// before are done, some 20 ms later. So these calls are made in the
// background; until a table is there, its code counts as unknown.
type tableStore struct {
	outer   *ebpf.Map
	rules   *ruleList
	cache   tableCache
	slots   slotList
	serial  uint32
	byID    map[fileIdentity]*codeFile
	content map[tableKey]*codeFile

	places *quota // of slots
	memory *quota // of tables' bytes
	effort *effort

	now, peak memory

	mu        sync.Mutex          // guards the rest, which background calls write
	calls     int                 // under way
	callsDone *sync.Cond          // calls is 0
	idle      []uint32            // slots that are empty again
	coming    map[uint32]struct{} // slots whose tables are on their way
	failure   error
}

// maxTableBytes bounds the tables of all processes: those of every program of a desktop are less than a tenth of it.
const maxTableBytes = 512 << 20

// memory is the bytes of tables and of what they were made from.
type memory struct{ tables, source uint64 }

func newTableStore(outer, rules *ebpf.Map, cache FileCache) (*tableStore, error) {
	list, err := newRuleList(rules)
	if err != nil {
		return nil, err
	}
	s := &tableStore{
		outer: outer, rules: list, cache: tableCache{files: cache}, slots: slotList{limit: outer.MaxEntries()},
		byID: make(map[fileIdentity]*codeFile), content: make(map[tableKey]*codeFile),
		coming: make(map[uint32]struct{}), effort: newEffort(time.Now),
		memory: newQuota(maxTableBytes),
	}
	n := uint64(s.slots.limit)
	s.places = newQuota(n - 1)
	s.callsDone = sync.NewCond(&s.mu)
	return s, nil
}

// background makes a call that takes its time. What it returns is written with mu held.
func (s *tableStore) background(call func() (done func())) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	go func() {
		done := call()
		s.mu.Lock()
		defer s.mu.Unlock()
		done()
		if s.calls--; s.calls == 0 {
			s.callsDone.Broadcast()
		}
	}()
}

// file returns the tables of an open file that a process maps, loading them if they are new. The caller releases them.
// A file without any has no segments with tables.
//
// Files share tables where they are one file in one state, or where all that the tables are made from is the same: what
// a file says of itself, as by its build ID, counts for nothing.
func (s *tableStore) file(pid int, mapper account, f *os.File) (use, error) {
	facts, err := factsOf(f)
	if err != nil {
		return use{}, err
	}
	id := facts.identity()
	if facts.fuse {
		id.process = pid
	}
	a := facts.account(mapper)
	if c := s.byID[id]; c != nil {
		return c.use(a), nil
	}
	part := id
	part.partial, part.account = true, a
	if c := s.byID[part]; c != nil {
		return c.use(a), nil
	}
	if !s.effort.left(a) {
		return use{}, fmt.Errorf("not read yet, as the files of %v take too much time", a)
	}
	u, err := s.read(f, a)
	if err != nil {
		return u, err
	}
	if u.partial {
		id = part
	}
	s.identify(u.codeFile, id)
	return u, nil
}

// identify notes that a file of this identity has the tables of c.
func (s *tableStore) identify(c *codeFile, id fileIdentity) {
	if len(c.ids) == maxIdentities {
		delete(s.byID, c.ids[0])
		c.ids = slices.Delete(c.ids, 0, 1)
	}
	c.ids = append(c.ids, id)
	s.byID[id] = c
}

// use adds a mapping to those of a file whose tables are there.
func (c *codeFile) use(a account) use {
	c.users[a]++
	return use{c, a}
}

// charge charges an account with what a file's tables take.
func (s *tableStore) charge(c *codeFile, a account) bool {
	if !s.places.take(a, c.slots) {
		return false
	}
	if !s.memory.take(a, c.bytes) {
		s.places.give(a, c.slots)
		return false
	}
	return true
}

// read loads the tables of a file that may be known by its content. One that can't be read has none, and is not
// read again while it is mapped.
func (s *tableStore) read(r io.ReaderAt, a account) (use, error) {
	counted := &countingReader{ReaderAt: r}
	source, err := unwind.Open(counted)
	key := tableKey{}
	s.effort.spend(a, counted.n, source, err)
	if err == nil {
		key = source.Key()
		if c := s.content[key]; c != nil {
			return c.use(a), nil
		}
	}
	file := &unwind.File{}
	if err == nil {
		if made, e := s.cache.tables(source, key); e != nil {
			err = e
		} else {
			file = made
		}
	}
	c := &codeFile{key: key, users: make(map[account]int), source: uint64(file.Source)}
	switch {
	case err != nil && !errors.Is(err, unwind.ErrNoTables):
		c.problem = fmt.Sprintf("%v: stacks through its code lean on frame pointers", err)
	case file.Bad > 0:
		c.problem = fmt.Sprintf("%d entries of its call frame information can't be read: stacks through their functions lean on frame pointers", file.Bad)
	case file.Lost > 0:
		c.problem = fmt.Sprintf("%d places in it have unwinding rules beyond those that are taken from one file: stacks through them lean on frame pointers", file.Lost)
	}
	return s.loadAll(c, file, a)
}

// loadAll puts the tables of a file into the kernel, as far as the account has room.
func (s *tableStore) loadAll(c *codeFile, file *unwind.File, a account) (use, error) {
	for _, segment := range file.Segments {
		if segment.Table != nil {
			c.slots++
			c.bytes += uint64(segment.Table.Bytes())
		}
	}
	if !s.charge(c, a) {
		c.problem = fmt.Sprintf("its tables take %d bytes, which %v has no room for: stacks through its code lean on frame pointers", c.bytes, a)
		c.slots, c.bytes, c.source, c.partial, file = 0, 0, 0, true, &unwind.File{}
	}
	c.users[a], c.payer = 1, a
	lost := 0
	for _, segment := range file.Segments {
		loaded, n, err := s.load(segment, a)
		if err != nil {
			s.clearAll(c)
			s.places.give(a, c.slots)
			s.memory.give(a, c.bytes)
			return use{}, err
		}
		c.segments = append(c.segments, loaded)
		lost += n
	}
	if lost > 0 {
		c.partial = true
		c.problem = fmt.Sprintf("%d of its unwinding rules have no room, of which %v has too many: stacks through their functions lean on frame pointers", lost, a)
	}
	if c.key != (tableKey{}) && !c.partial {
		s.content[c.key] = c
	}
	s.now.tables, s.now.source = s.now.tables+c.bytes, s.now.source+c.source
	if s.now.tables > s.peak.tables {
		s.peak = s.now
	}
	return use{c, a}, nil
}

// image returns the tables of an ELF image read from memory (the vDSO).
func (s *tableStore) image(data []byte, mapper account) (use, error) {
	u, err := s.read(bytes.NewReader(data), mapper)
	if err != nil {
		return use{}, fmt.Errorf("unwinding tables of the vDSO: %w", err)
	}
	return u, nil
}

const chunkWords = len(bpf.MemtraceTableChunk{}.Words)

// load puts a segment's table into the kernel. Lost are the rows' rules that there is no room for.
func (s *tableStore) load(segment unwind.Segment, a account) (out codeSegment, lost int, err error) {
	out = codeSegment{Segment: segment}
	if segment.Table == nil {
		return out, 0, nil
	}
	slot, err := s.slot()
	if err != nil {
		return out, 0, fmt.Errorf("install the table: %w", err)
	}
	s.serial++
	words := segment.Table.Encode(s.serial, func(r unwind.Rule) uint32 {
		n, ok := s.rules.number(r, a)
		if !ok {
			lost++
		}
		return n
	})
	if err = s.rules.flush(); err == nil {
		err = s.install(slot, words)
	}
	if err != nil {
		s.slots.give(slot)
		return out, 0, err
	}
	out.slot, out.serial = slot, s.serial
	out.Table = &unwind.Table{Text: segment.Table.Text} // the rows are in the kernel now
	return out, lost, nil
}

func (s *tableStore) install(slot uint32, words []uint32) error {
	for len(words)%chunkWords != 0 {
		words = append(words, 0)
	}
	n := len(words) / chunkWords
	keys, values := make([]uint32, n), make([][chunkWords]uint32, n)
	for i := range n {
		keys[i] = uint32(i)
		copy(values[i][:], words[i*chunkWords:])
	}
	inner, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: uint32(4 * chunkWords), MaxEntries: uint32(n), Flags: innerMap,
	})
	if err != nil {
		return fmt.Errorf("create a table of %d × %d bytes: %w", n, 4*chunkWords, err)
	}
	if _, err := inner.BatchUpdate(keys, values, nil); err != nil {
		return errors.Join(fmt.Errorf("fill a table of %d × %d bytes: %w", n, 4*chunkWords, err), inner.Close())
	}
	s.mu.Lock()
	s.coming[slot] = struct{}{}
	s.mu.Unlock()
	s.background(func() func() {
		err := s.outer.Put(slot, inner)
		_ = inner.Close() // the outer map holds it
		return func() {
			delete(s.coming, slot)
			if err != nil {
				s.failure = fmt.Errorf("install an unwinding table: %w", err)
			}
		}
	})
	return nil
}

// slot takes an empty place for a table.
func (s *tableStore) slot() (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range s.idle {
		s.slots.give(slot)
	}
	s.idle = s.idle[:0]
	return s.slots.take()
}

// clear empties the place of a table.
func (s *tableStore) clear(slot uint32) {
	s.background(func() func() {
		err := s.outer.Delete(slot)
		return func() {
			if err == nil {
				s.idle = append(s.idle, slot)
			}
		}
	})
}

// wait waits until all tables are in the kernel.
func (s *tableStore) wait() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.calls > 0 {
		s.callsDone.Wait()
	}
	err := s.failure
	s.failure = nil
	return err
}

// release gives a file up that file or image returned.
func (s *tableStore) release(u use) {
	c, a := u.codeFile, u.account
	if c.users[a]--; c.users[a] > 0 {
		return
	}
	delete(c.users, a)
	if a == c.payer {
		s.places.give(a, c.slots)
		s.memory.give(a, c.bytes)
		for c.payer = range c.users { // any of the others pays from now on
			s.places.charge(c.payer, c.slots)
			s.memory.charge(c.payer, c.bytes)
			break
		}
	}
	if len(c.users) == 0 {
		s.drop(c)
	}
}

func (s *tableStore) clearAll(c *codeFile) {
	for _, segment := range c.segments {
		if segment.slot != 0 {
			s.clear(segment.slot)
		}
	}
}

func (s *tableStore) drop(c *codeFile) {
	s.clearAll(c)
	s.now.tables, s.now.source = s.now.tables-c.bytes, s.now.source-c.source
	for _, id := range c.ids {
		if s.byID[id] == c {
			delete(s.byID, id)
		}
	}
	if s.content[c.key] == c {
		delete(s.content, c.key)
	}
}
