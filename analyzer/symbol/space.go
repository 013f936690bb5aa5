package symbol

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// maxRetired bounds the mappings kept after they went away: a program that
// loads and unloads plugins for months must not fill memtrace.
const maxRetired = 4096

// anonymous is the module of memory without a file or a name.
const anonymous = "[anon]"

// ErrExited says that the process has no mappings any more. What was mapped
// before stays resolvable.
var ErrExited = errors.New("the process has exited")

// Space is what a process has mapped executable over time, with the files behind it
// held open. Refresh brings it up to date; mappings that went away still
// answer for addresses that nothing newer covered at the time that is asked for.
// After an exec use a new one. A Space may be used from several goroutines.
type Space struct {
	proc string // /proc/PID, or that of another thread once the first has ended
	root int    // O_PATH descriptor of the process's root directory where that is not our own, or -1
	sees *view  // of that root; nil: our own
	jit  perfMap

	parent *Space // of a process that was forked: what it inherited
	forked uint64 // when: what its parent mapped later is not its own

	mu       sync.RWMutex
	current  []mapping // ascending by start, not overlapping
	retired  []mapping // latest last
	gone     []region  // retired since Unmapped was called
	warnings warnings
}

// maxThreadTries bounds through how many threads the memory is looked for; all
// but the first leave /proc as soon as they end.
const maxThreadTries = 16

// mapping is one region with the file behind it, which is nil for memory
// without a file and where the file could not be opened.
type mapping struct {
	region
	file  *mappedFile
	since uint64 // when it was there for certain, ns; 0: from the first
	lacks error  // why its file, which was there, was not opened
}

// maxAncestors bounds through how many processes names are inherited.
const maxAncestors = 16

// NewSpace reads what process pid has mapped. root is where procfs is
// mounted, "/proc". A file that can't be opened is a warning, not an error.
func NewSpace(root string, pid int) (*Space, error) {
	return newSpace(root, pid).filled(0)
}

// Fork is NewSpace for a process that another, of which s is the Space, forked at
// a time. What it inherited and has let go of keeps its names.
func (s *Space) Fork(root string, pid int, forked, now uint64) (*Space, error) {
	child := newSpace(root, pid)
	if s.ancestors(nil) < maxAncestors {
		child.parent, child.forked = s, forked
	}
	return child.filled(now)
}

// Inherit makes s, which was read at a time, ns, the Space of a process that another, of which parent is the Space,
// had forked before: what that had mapped names what came until then. Said again, by a fork that became known later, the
// last one holds: an earlier one was of another process that had its ID. It must not be called by two goroutines at once.
func (s *Space) Inherit(parent *Space, forked, read uint64) {
	if parent.ancestors(s) >= maxAncestors {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parent, s.forked = parent, forked
	for _, list := range [][]mapping{s.current, s.retired} {
		for i := range list {
			if list[i].since == 0 {
				list[i].since = read
			}
		}
	}
}

// ancestors is through how many processes names come to s; maxAncestors where there are as many, or where one is child:
// a process is not its own ancestor.
func (s *Space) ancestors(child *Space) int {
	for n := 0; n < maxAncestors && s != child; n++ {
		parent, _ := s.inherits()
		if parent == nil {
			return n
		}
		s = parent
	}
	return maxAncestors
}

// inherits returns what names what s inherited, and the time until which it did; nil: nothing.
func (s *Space) inherits() (parent *Space, forked uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.parent, s.forked
}

func newSpace(root string, pid int) *Space {
	proc := fmt.Sprintf("%s/%d", root, pid)
	s := &Space{proc: proc}
	s.jit = perfMap{proc: proc, every: perfMapEvery, warnings: &s.warnings}
	s.enterRoot(proc)
	return s
}

// enterRoot opens the root directory of a process, or thread, by its directory in /proc.
func (s *Space) enterRoot(proc string) {
	if s.root = debugfile.OpenRoot(proc); s.root >= 0 {
		v := newView(s.root)
		s.sees = &v
	}
}

// view is where the process's debug files are. Its root stays the Space's.
func (s *Space) view() view {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.sees == nil {
		return ownView
	}
	return *s.sees
}

func (s *Space) filled(now uint64) (*Space, error) {
	if err := s.Refresh(now); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close lets go of the files. The Space must not be used afterwards.
func (s *Space) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.current {
		files.release(m.file)
	}
	for _, m := range s.retired {
		files.release(m.file)
	}
	s.current, s.retired = nil, nil
	s.jit.close()
	if s.root >= 0 {
		unix.Close(s.root)
		s.root = -1
	}
}

// Refresh reads the mappings again (/proc/PID/maps, some 10 µs and 0.1 µs a
// mapping) and opens what is new: that has been there from since on, ns of any
// clock, which is that of FramesAt. Where the process has exited it
// returns an error that wraps ErrExited and changes nothing.
func (s *Space) Refresh(since uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps, err := s.readMaps()
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		err = ErrExited
	}
	if err == nil && !maps.any {
		err = ErrExited
	}
	if err != nil {
		return fmt.Errorf("read the mappings of %s: %w", s.proc, err)
	}
	if n := maps.names.Cut + maps.more; n > 0 {
		s.warnings.add(s.proc, fmt.Sprintf("%d mappings of code of %s have no name: their paths or numbers are beyond any real program's", n, s.proc))
	}
	s.update(maps.regions, since)
	return nil
}

// Unmapped returns a function that tells the addresses of code that was found
// unmapped since the last call: it keeps its names as long as there is room for them.
// It is nil where nothing was.
func (s *Space) Unmapped() func(addr uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.gone) == 0 {
		return nil
	}
	gone := s.gone
	s.gone = nil
	return func(addr uint64) bool {
		return slices.ContainsFunc(gone, func(r region) bool { return r.start <= addr && addr < r.end })
	}
}

// readMaps reads the mappings through the first thread, or another where that
// has called pthread_exit and has no memory any more.
func (s *Space) readMaps() (*codeMaps, error) {
	maps, err := readMapsOf(s.proc)
	if err != nil || maps.any {
		return maps, err
	}
	tasks, err := os.Open(s.proc + "/task")
	if err != nil {
		return nil, err
	}
	defer tasks.Close()
	names, _ := tasks.Readdirnames(maxThreadTries) // what could not be listed is not tried
	for _, name := range names {
		other := filepath.Join(filepath.Dir(s.proc), name)
		if maps, err := readMapsOf(other); err == nil && maps.any {
			s.proc = other
			if s.root < 0 {
				s.enterRoot(other)
			}
			return maps, nil
		}
	}
	return nil, ErrExited
}

// update makes regions the current mappings.
func (s *Space) update(regions []region, since uint64) {
	known := make(map[region]mapping, len(s.current))
	for _, m := range s.current {
		known[m.region] = m
	}
	next := make([]mapping, 0, len(regions))
	for _, r := range regions {
		m, ok := known[r]
		if ok {
			delete(known, r)
		} else {
			m = mapping{region: r, since: since}
		}
		n := len(next)
		switch {
		case !ok && r.fileBacked() && n > 0 && next[n-1].file != nil && next[n-1].sameFile(r) && next[n-1].path == r.path:
			m.file = files.retain(next[n-1].file) // another part of it
		case !ok && r.fileBacked(), errors.Is(m.lacks, debugfile.ErrLeased): // that may be over by now
			m.file, m.lacks = s.openFile(r)
		case !ok && r.path == vdsoPath:
			m.file = s.openVDSO(r)
		}
		next = append(next, m)
	}
	sort.Slice(next, func(i, j int) bool { return next[i].start < next[j].start })
	for _, m := range s.current {
		// Memory without a name, as of JIT compilers, comes and goes in numbers
		// and has nothing to keep.
		if _, gone := known[m.region]; gone && m.moduleName() != anonymous {
			s.keepUnmapped(m)
			if len(s.gone) < maxRetired {
				s.gone = append(s.gone, m.region)
			}
		}
	}
	s.current = next
}

// keepUnmapped keeps a mapping that is gone. A mapping that came and went before, as of
// a plugin loaded in a loop, is kept once if nothing else was mapped in its place.
func (s *Space) keepUnmapped(m mapping) {
	for i := len(s.retired) - 1; i >= 0; i-- {
		old := s.retired[i]
		if old.overlaps(m.region) && old.region != m.region {
			break
		}
		if old.region == m.region && old.file == m.file {
			m.since = old.since
			files.release(old.file)
			s.retired = append(s.retired[:i], s.retired[i+1:]...)
			break
		}
	}
	if len(s.retired) >= maxRetired {
		files.release(s.retired[0].file)
		s.retired = s.retired[1:]
	}
	s.retired = append(s.retired, m)
}

// find returns the mapping that covered addr at a time, with its file retained for the
// caller, who releases it.
func (s *Space) find(addr, at uint64) (mapping, bool) { return s.findWithin(addr, at, maxAncestors) }

// findWithin is find through a number of ancestors: as one may get another parent, there may be more.
func (s *Space) findWithin(addr, at uint64, ancestors int) (mapping, bool) {
	m, ok, parent, forked := s.own(addr, at)
	if parent == nil || ancestors == 0 || ok && m.since <= at {
		return m, ok
	}
	inherited, known := parent.findWithin(addr, min(at, forked), ancestors-1)
	if !known || ok && inherited.since >= m.since {
		files.release(inherited.file)
		return m, ok
	}
	files.release(m.file)
	return inherited, true
}

// own is what s has mapped itself, its file retained, beside what it inherits.
func (s *Space) own(addr, at uint64) (m mapping, ok bool, parent *Space, forked uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m, ok = s.lookup(addr, at); ok && m.file != nil {
		files.retain(m.file)
	}
	return m, ok, s.parent, s.forked
}

// lookup returns the last mapping of addr that was there at a time, or else the
// first that was seen later: what nobody has seen come was there before it was seen.
func (s *Space) lookup(addr, at uint64) (found mapping, ok bool) {
	i := sort.Search(len(s.current), func(i int) bool { return s.current[i].end > addr })
	if i < len(s.current) && s.current[i].start <= addr {
		found, ok = s.current[i], true
		if found.since <= at {
			return found, true
		}
	}
	for i := len(s.retired) - 1; i >= 0; i-- {
		m := s.retired[i]
		if addr < m.start || m.end <= addr {
			continue
		}
		if found, ok = m, true; m.since <= at {
			return m, true
		}
	}
	return found, ok
}

func (r region) overlaps(o region) bool { return r.start < o.end && o.start < r.end }

// openFile maps the file behind r: through map_files, which leads to the very
// file even if it was deleted (needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN),
// else by its path below the process's root. The error says why it is not to be read.
func (s *Space) openFile(r region) (f *mappedFile, refused error) {
	fd, err := s.openMapped(r)
	if err == nil {
		defer unix.Close(fd)
		if f, err = files.open(fd, r.path); err == nil {
			return f, nil
		}
	}
	s.warnings.add(r.path, fmt.Sprintf("open %s as mapped by %s: %v; its functions will have no names", r.path, s.proc, err))
	if !debugfile.Refused(err) || errors.Is(err, debugfile.ErrNotRegular) { // as a device
		return nil, nil
	}
	return nil, fmt.Errorf("open %s: %w", r.path, err)
}

func (s *Space) openMapped(r region) (int, error) {
	fd, _, err := debugfile.OpenRegular(fmt.Sprintf("%s/map_files/%x-%x", s.proc, r.start, r.end))
	if err == nil {
		return fd, nil
	}
	if debugfile.Refused(err) {
		return -1, err
	}
	fd, st, pathErr := debugfile.OpenRegular(s.proc + "/root" + r.path)
	if pathErr != nil {
		// A mapping that came and went between two reads, or an exit.
		if r.deleted {
			return -1, fmt.Errorf("the file was deleted, and following map_files failed: %w", err)
		}
		return -1, pathErr
	}
	if !r.isFile(fd, st) {
		unix.Close(fd)
		return -1, errors.New("the file at its path is not the mapped one any more")
	}
	return fd, nil
}

// isFile tells whether the file of stat st is the one that the region maps.
// On btrfs and overlayfs the device in maps differs from that of stat(2); the
// inode alone has to do there.
func (r region) isFile(fd int, st unix.Stat_t) bool {
	if st.Ino != r.inode {
		return false
	}
	if uint64(st.Dev) == unix.Mkdev(r.major, r.minor) {
		return true
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	return fs.Type == unix.BTRFS_SUPER_MAGIC || fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// JITRewritten says that the process has written its map of JIT code anew, as a whole. What the map said before of other code is kept. The map
// is read at once, and from now on only when this is called.
func (s *Space) JITRewritten() error { return s.jit.rewritten() }

// Warnings says which files could not be opened, each once, in plain words.
func (s *Space) Warnings() []string { return s.warnings.list() }

// moduleName is what a mapping is called in a Frame.
func (m mapping) moduleName() string {
	if m.path == "" || strings.HasPrefix(m.path, "//anon") {
		return anonymous
	}
	return printable(m.path)
}

// mayBeJIT tells whether code that a compiler made at run time may lie in the
// mapping: memory without a file, or one that has only memory behind it.
func (m mapping) mayBeJIT() bool {
	return m.inode == 0 && m.path != vdsoPath || strings.HasPrefix(m.path, "/memfd:") || strings.HasPrefix(m.path, "/dev/zero") || strings.HasPrefix(m.path, "/SYSV")
}
