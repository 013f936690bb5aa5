package tracer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/unwind"
)

// innerMap is BPF_F_INNER_MAP (5.10): arrays of one array-of-maps may differ in size.
const innerMap = 0x1000

// fileIdentity tells one state of a file from others.
type fileIdentity struct {
	device, inode uint64
	size          int64
	sec, nsec     int64 // of the last modification
}

// contentIdentity tells files of equal content, such as one library in
// several containers.
type contentIdentity struct {
	buildID string
	size    int64
}

// codeFile is a file whose tables are in the kernel.
type codeFile struct {
	ids      []fileIdentity
	content  contentIdentity
	segments []codeSegment
	users    int
	bytes    uint64 // of tables
	source   uint64 // of call frame information
	bad      int    // entries of it that can't be read
}

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
	content map[contentIdentity]*codeFile

	now, peak memory

	mu      sync.Mutex          // guards the rest, which background calls write
	calls   int                 // under way
	settled *sync.Cond          // calls is 0
	idle    []uint32            // slots that are empty again
	coming  map[uint32]struct{} // slots whose tables are on their way
	failure error
}

// memory is the bytes of tables and of what they were made from.
type memory struct{ tables, source uint64 }

func newTableStore(outer, rules *ebpf.Map, cache FileCache) (*tableStore, error) {
	list, err := newRuleList(rules)
	if err != nil {
		return nil, err
	}
	s := &tableStore{
		outer: outer, rules: list, cache: tableCache{files: cache}, slots: slotList{limit: outer.MaxEntries()},
		byID: make(map[fileIdentity]*codeFile), content: make(map[contentIdentity]*codeFile),
		coming: make(map[uint32]struct{}),
	}
	s.settled = sync.NewCond(&s.mu)
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
			s.settled.Broadcast()
		}
	}()
}

// file returns the tables of an open file, loading them if they are new. The
// caller releases them. A file without any has no segments with tables.
func (s *tableStore) file(f *os.File) (*codeFile, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	id := fileIdentity{st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec}
	if c := s.byID[id]; c != nil {
		c.users++
		return c, nil
	}
	c, err := s.read(f, st.Size)
	if err != nil {
		return nil, err
	}
	c.ids = append(c.ids, id)
	s.byID[id] = c
	return c, nil
}

// read loads the tables of a file that may be known by its content.
func (s *tableStore) read(r io.ReaderAt, size int64) (*codeFile, error) {
	id := contentIdentity{unwind.BuildID(r), size}
	if c := s.content[id]; c != nil && id.buildID != "" {
		c.users++
		return c, nil
	}
	file, err := s.cache.tables(id.buildID, r)
	if err != nil && !errors.Is(err, unwind.ErrNoTables) {
		return nil, err
	}
	if file == nil {
		file = &unwind.File{}
	}
	c := &codeFile{content: id, users: 1, source: uint64(file.Source), bad: file.Bad}
	for _, segment := range file.Segments {
		loaded, err := s.load(c, segment)
		if err != nil {
			s.clearAll(c)
			return nil, err
		}
		c.segments = append(c.segments, loaded)
	}
	if id.buildID != "" {
		s.content[id] = c
	}
	s.now.tables, s.now.source = s.now.tables+c.bytes, s.now.source+c.source
	if s.now.tables > s.peak.tables {
		s.peak = s.now
	}
	return c, nil
}

// image returns the tables of an ELF image read from memory (the vDSO).
func (s *tableStore) image(data []byte) (*codeFile, error) {
	c, err := s.read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("unwinding tables of the vDSO: %w", err)
	}
	return c, nil
}

const chunkWords = len(bpf.MemtraceTableChunk{}.Words)

// load puts a segment's table into the kernel.
func (s *tableStore) load(c *codeFile, segment unwind.Segment) (codeSegment, error) {
	out := codeSegment{Segment: segment}
	if segment.Table == nil {
		return out, nil
	}
	slot, err := s.slot()
	if err != nil {
		return out, fmt.Errorf("install the table: %w", err)
	}
	s.serial++
	words := segment.Table.Encode(s.serial, s.rules.number)
	if err = s.rules.flush(); err == nil {
		err = s.install(slot, words)
	}
	if err != nil {
		s.slots.give(slot)
		return out, err
	}
	out.slot, out.serial = slot, s.serial
	out.Table = &unwind.Table{Text: segment.Table.Text} // the rows are in the kernel now
	c.bytes += 4 * uint64(len(words))
	return out, nil
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
		s.settled.Wait()
	}
	err := s.failure
	s.failure = nil
	return err
}

// release gives a file up that file or image returned.
func (s *tableStore) release(c *codeFile) {
	if c.users--; c.users == 0 {
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
		delete(s.byID, id)
	}
	if s.content[c.content] == c {
		delete(s.content, c.content)
	}
}
