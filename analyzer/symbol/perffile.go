package symbol

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Bounds of a map of JIT code: the bytes read of it, and its entries.
	maxPerfMap     = 64 << 20
	maxPerfSymbols = 1 << 20
	// What the maps of all processes may hold in memory: those of root's processes, and those of all others' together.
	// One of these has no more than one part in perfShare of what is left: the first most, but the next one always some.
	maxPerfRoot   = 192 << 20
	maxPerfOthers = 192 << 20
	perfShare     = 2
	// Bytes read of a map that is written anew again and again: at once, and then each second.
	perfCredit = 4 * maxPerfMap
	perfRate   = 2 << 20
	// perfPiece is read at a time, in bytes. A longer line is left out.
	perfPiece = 1 << 20
	// perfSymbolSize is what an entry takes beside its line, perfMerge what putting it in its place costs, in bytes read.
	perfSymbolSize, perfMerge = 40, 4
)

var errPerfRoom = errors.New("maps of JIT code come to more than memtrace holds: some functions in it will have no names")

// perfFile is one map of JIT code, shared by the processes of one user that have the same file.
type perfFile struct {
	perfID
	refs int // guarded by the table's lock

	mu      sync.Mutex
	read    int64        // bytes of the file
	symbols []perfSymbol // ascending by start, then by number
	number  int          // of symbols ever read
	midLine bool         // what comes next is the rest of a line that was left out
	held    int64        // memory, in bytes
	full    bool         // there is no more room
	credit  int64        // bytes that may be read
	paid    time.Time    // when it was last looked at
}

// perfID tells maps apart. What a map holds counts for the user whose processes have it, whoever owns the file: any
// process may have another's large files in place of its map.
type perfID struct {
	key   fileKey // of the file, without size, and with the time of birth
	owner uint32
}

// perfTable holds the maps of the whole program, and counts what they hold. There is one, since what
// it bounds belongs to the whole program.
type perfTable struct {
	mu     sync.Mutex
	files  map[perfID]*perfFile
	held   int64            // by those of others than root
	owners map[uint32]int64 // held by those of each user
}

var perfFiles = perfTable{files: map[perfID]*perfFile{}, owners: map[uint32]int64{}}

// get returns the file of a key, which the caller releases.
func (t *perfTable) get(key fileKey, owner uint32) *perfFile {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := perfID{key, owner}
	f := t.files[id]
	if f == nil {
		f = &perfFile{perfID: id, credit: perfCredit}
		t.files[id] = f
	}
	f.refs++
	return f
}

// release gives up one use of f; the last one lets its memory go.
func (t *perfTable) release(f *perfFile) {
	if f == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.refs--; f.refs > 0 {
		return
	}
	delete(t.files, f.perfID)
	t.count(f, -f.held)
}

// take counts n bytes more for f; false means that there is no room.
func (t *perfTable) take(f *perfFile, n int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.owners[f.owner] + n
	if f.owner == 0 && mine > maxPerfRoot || f.owner != 0 && mine > (maxPerfOthers-t.held-n)/perfShare {
		return false
	}
	t.count(f, n)
	return true
}

func (t *perfTable) count(f *perfFile, n int64) {
	f.held += n
	if f.owner != 0 {
		t.held += n
	}
	if t.owners[f.owner] += n; t.owners[f.owner] == 0 {
		delete(t.owners, f.owner)
	}
}

// refresh reads what was added to the file, whose size is given. The error says that there is no room for all.
func (f *perfFile) refresh(r io.ReaderAt, size int64, t *perfTable, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if size == f.read || size > f.read && f.full || !f.mayRead(now) {
		return nil
	}
	if size < f.read {
		f.reset(t)
	}
	var added []perfSymbol
	buf := make([]byte, min(perfPiece, size-f.read))
	for !f.full && f.read < size {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), size-f.read)], f.read)
		if err != nil && err != io.EOF {
			return err
		}
		whole := wholeLines(buf[:n])
		if whole == 0 {
			break // the last line is half written, or the file was cut short
		}
		f.credit -= int64(whole)
		before := len(added)
		added = f.parse(added, string(buf[:whole]))
		room := t.take(f, int64(whole+perfSymbolSize*(len(added)-before)))
		if f.full = !room || f.read+int64(whole) > maxPerfMap || len(f.symbols)+len(added) >= maxPerfSymbols; f.full {
			added = added[:before]
			break
		}
		f.read += int64(whole)
	}
	f.merge(added)
	if f.full {
		return errPerfRoom
	}
	return nil
}

// mayRead says whether the file is not written anew too often.
func (f *perfFile) mayRead(now time.Time) bool {
	if !f.paid.IsZero() {
		f.credit = min(perfCredit, f.credit+int64(now.Sub(f.paid).Seconds()*perfRate))
	}
	f.paid = now
	return f.credit > 0
}

func (f *perfFile) reset(t *perfTable) {
	t.mu.Lock()
	t.count(f, -f.held)
	t.mu.Unlock()
	f.read, f.symbols, f.number, f.midLine, f.full = 0, nil, 0, false, false
}

// wholeLines is how much of a piece is whole lines, or else a part of a line that is too long.
func wholeLines(piece []byte) int {
	if end := bytes.LastIndexByte(piece, '\n'); end >= 0 {
		return end + 1
	}
	if len(piece) == perfPiece {
		return len(piece)
	}
	return 0
}

// parse adds lines of "START SIZE NAME", the numbers in hexadecimal. Lines it
// can't read are left out. Names lie where the text does.
func (f *perfFile) parse(added []perfSymbol, text string) []perfSymbol {
	for line := range strings.Lines(text) {
		whole := strings.HasSuffix(line, "\n")
		skip := f.midLine || !whole
		if f.midLine = !whole; skip {
			continue
		}
		first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		second, name, _ := strings.Cut(rest, " ")
		n := numbers{ok: true}
		start := n.parse(strings.TrimPrefix(first, "0x"), 16, 64)
		size := n.parse(strings.TrimPrefix(second, "0x"), 16, 64)
		if !n.ok || name == "" || start+size <= start {
			continue
		}
		added = append(added, perfSymbol{start, start + size, f.number, name[:min(len(name), maxName)]})
		f.number++
	}
	return added
}

// numbers parses several numbers and remembers whether all were good.
type numbers struct{ ok bool }

func (n *numbers) parse(s string, base, bits int) uint64 {
	v, err := strconv.ParseUint(s, base, bits)
	if err != nil {
		n.ok = false
	}
	return v
}

// merge puts symbols that were written later in their places.
func (f *perfFile) merge(added []perfSymbol) {
	if len(added) == 0 {
		return
	}
	order := func(a, b perfSymbol) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.number, b.number))
	}
	slices.SortFunc(added, order)
	f.credit -= perfMerge * int64(len(f.symbols)+len(added))
	if len(f.symbols) == 0 {
		f.symbols = slices.Clip(added)
		return
	}
	all := make([]perfSymbol, 0, len(f.symbols)+len(added))
	for _, s := range f.symbols {
		for len(added) > 0 && order(added[0], s) < 0 {
			all, added = append(all, added[0]), added[1:]
		}
		all = append(all, s)
	}
	f.symbols = append(all, added...)
}

// name returns the function at addr, "" where there is none.
func (f *perfFile) name(addr uint64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.symbols, addr, func(s perfSymbol, addr uint64) int {
		if s.start > addr {
			return 1
		}
		return -1
	})
	found, number := "", -1
	for back := i - 1; back >= max(0, i-maxBack); back-- {
		if s := f.symbols[back]; addr < s.end && s.number > number {
			found, number = s.name, s.number
		}
	}
	return strings.Clone(found) // the text may go
}

// perfKey identifies a file: numbers of inodes come again, times of birth don't.
func perfKey(fd int, st unix.Stat_t) fileKey {
	key := fileKey{dev: uint64(st.Dev), ino: st.Ino}
	var x unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x) == nil && x.Mask&unix.STATX_BTIME != 0 {
		key.mtime = unix.Timespec{Sec: x.Btime.Sec, Nsec: int64(x.Btime.Nsec)}
	}
	return key
}

// reread reads all of a file that is written anew as a whole. What it says of code that it does not name any more is kept. The error says that there
// is no room for all.
func (f *perfFile) reread(r io.ReaderAt, size int64, t *perfTable, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full || size > maxPerfMap {
		return errPerfRoom
	}
	if !f.mayRead(now) {
		return nil
	}
	f.midLine = false
	buf := make([]byte, min(perfPiece, size))
	for at := int64(0); at < size && !f.full; {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && err != io.EOF {
			return err
		}
		whole := wholeLines(buf[:n])
		if whole == 0 {
			break
		}
		f.credit -= int64(whole)
		f.keep(f.parse(nil, string(buf[:whole])), t)
		at += int64(whole)
	}
	if f.full {
		return errPerfRoom
	}
	return nil
}

// keep adds symbols that are not there yet, as far as there is room.
func (f *perfFile) keep(symbols []perfSymbol, t *perfTable) {
	fresh := symbols[:0]
	for _, s := range symbols {
		if f.says(s) {
			continue
		}
		room := t.take(f, int64(len(s.name)+perfSymbolSize))
		if f.full = !room || len(f.symbols)+len(fresh) >= maxPerfSymbols; f.full {
			break
		}
		s.name = strings.Clone(s.name)
		fresh = append(fresh, s)
	}
	f.merge(fresh)
}

// says reports whether the newest symbol at a place is this one.
func (f *perfFile) says(s perfSymbol) bool {
	i, _ := slices.BinarySearchFunc(f.symbols, s.start+1, func(known perfSymbol, start uint64) int { return cmp.Compare(known.start, start) })
	if i == 0 {
		return false
	}
	known := f.symbols[i-1]
	return known.start == s.start && known.end == s.end && known.name == s.name
}
