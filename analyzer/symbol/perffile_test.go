package symbol

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func newPerfTable() *perfTable {
	return &perfTable{files: map[perfID]*perfFile{}, owners: map[uint32]int64{}}
}

// lineReader is a map of as many functions as are asked for, one a byte from 0x1000 on, all lines of one length.
type lineReader struct{ width int }

func (r lineReader) ReadAt(p []byte, off int64) (int, error) {
	for n := 0; n < len(p); {
		line := fmt.Sprintf("%x 1 ", 0x1000+(off+int64(n))/int64(r.width))
		line += strings.Repeat("x", r.width-1-len(line)) + "\n"
		n += copy(p[n:], line[(off+int64(n))%int64(r.width):])
	}
	return len(p), nil
}

// TestPerfMapsOfManyProcesses: what the maps of a user hold is bounded, however many there are; one file
// that several processes have is held once; another user's and root's have room of their own; and what was let go of
// makes room again.
func TestPerfMapsOfManyProcesses(t *testing.T) {
	table, r := newPerfTable(), lineReader{1024}
	const size = 16 << 20
	var held []*perfFile
	refused := 0
	for i := range 20 {
		f := table.get(fileKey{ino: uint64(i)}, 1000)
		held = append(held, f)
		if err := f.refresh(r, size, table, time.Time{}); errors.Is(err, errPerfRoom) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	const most = maxPerfOthers / (1 + perfShare)
	if table.held > most || table.held < most-perfPiece*2 || refused == 0 {
		t.Errorf("%d bytes held of one user's maps, %d maps cut off; want some %d", table.held, refused, most)
	}
	for _, owner := range []uint32{1001, 0} {
		other := table.get(fileKey{ino: 100 + uint64(owner)}, owner)
		if err := other.refresh(r, size, table, time.Time{}); err != nil || other.name(0x1001) == "" {
			t.Errorf("user %d: %q, %v; want a name", owner, other.name(0x1001), err)
		}
		table.release(other)
	}
	if again := table.get(fileKey{}, 1000); again != held[0] {
		t.Error("a file that another process has, too, is another")
	}
	table.release(held[0])
	for _, f := range held {
		table.release(f)
	}
	if table.held != 0 || len(table.files) != 0 || len(table.owners) != 0 {
		t.Errorf("%d bytes of %d files held though nobody has them", table.held, len(table.files))
	}
}

// TestPerfMapsOfHostileUsers: ten users whose maps hold what they may leave room for an eleventh's.
func TestPerfMapsOfHostileUsers(t *testing.T) {
	table := newPerfTable()
	for user := range uint32(10) {
		for file := range uint64(4) {
			f := table.get(fileKey{ino: file}, 1000+user)
			if err := f.refresh(lineReader{1024}, maxPerfMap, table, time.Time{}); err != nil && !errors.Is(err, errPerfRoom) {
				t.Fatal(err)
			}
		}
	}
	f := table.get(fileKey{ino: 100}, 2000)
	if err := f.refresh(lineReader{64}, 256<<10, table, time.Time{}); err != nil || f.name(0x1000) == "" {
		t.Errorf("%q, %v: want a name", f.name(0x1000), err)
	}
	if table.held > maxPerfOthers {
		t.Errorf("%d bytes are held", table.held)
	}
}

// TestPerfMapWrittenAnew is read no more often than there is credit for.
func TestPerfMapWrittenAnew(t *testing.T) {
	table, r := newPerfTable(), lineReader{1024}
	f := table.get(fileKey{}, 0)
	now, credit := time.Unix(0, 0), int64(perfCredit)
	read := 0
	for range 100 {
		if err := f.refresh(r, 32<<20, table, now); err != nil {
			t.Fatal(err)
		}
		if f.credit < credit {
			read++
		}
		credit = f.credit
		f.mu.Lock()
		f.reset(table) // as where it is shorter by now
		f.mu.Unlock()
	}
	if most := perfCredit/(32<<20) + 1; read == 0 || read > most {
		t.Errorf("read %d times at once, want at most %d", read, most)
	}
	if err := f.refresh(r, 32<<20, table, now.Add(time.Hour)); err != nil || f.name(0x1000) == "" {
		t.Errorf("%q, %v an hour later, want a name", f.name(0x1000), err)
	}
}

// TestPerfMapLines: a line that is too long is left out, and those that come in any order are found.
func TestPerfMapLines(t *testing.T) {
	table := newPerfTable()
	f := table.get(fileKey{}, 0)
	text := "3000 10 c\n" + strings.Repeat("2000 10 b", perfPiece) + "\n1000 10 a\n"
	for _, n := range []int{len(text) - 3, len(text)} {
		if err := f.refresh(strings.NewReader(text), int64(n), table, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, c := f.name(0x1000), f.name(0x2000), f.name(0x3000); a != "a" || b != "" || c != "c" {
		t.Errorf("names %q, %.20q, %q; want a, none and c", a, b, c)
	}
}

// A map that is written anew as a whole adds to what it said before: code that is gone keeps its name, for stacks from before; of two names at a
// place the later one holds. What is said again takes no room.
func TestPerfMapWrittenAsAWhole(t *testing.T) {
	table := newPerfTable()
	f := table.get(fileKey{}, 1000)
	defer table.release(f)
	write := func(text string) {
		t.Helper()
		if err := f.reread(strings.NewReader(text), int64(len(text)), table, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	write("0x1000 0x100 one\n0x2000 0x100 two\n0x3000 0x100 three\n")
	held := f.held
	write("0x1000 0x100 one\n0x2000 0x100 two\n0x3000 0x100 three\n")
	if f.held != held || len(f.symbols) != 3 {
		t.Errorf("%d bytes in %d names, and %d before the same was said again", f.held, len(f.symbols), held)
	}
	write("0x2000 0x100 other\n0x5000 0x100 five\n0x6000 0x10") // its last line is half written
	for addr, want := range map[uint64]string{0x1080: "one", 0x2080: "other", 0x3080: "three", 0x5000: "five", 0x6000: "", 0x1100: ""} {
		if got := f.name(addr); got != want {
			t.Errorf("at %#x is %q, want %q", addr, got, want)
		}
	}
	write("0x2000 0x100 two\n")
	if got := f.name(0x2080); got != "two" {
		t.Errorf("the name that came back is %q", got)
	}
}

// What a map that is written anew and anew may have read and held is bounded.
func TestPerfMapWrittenAsAWholeIsBounded(t *testing.T) {
	table := newPerfTable()
	f := table.get(fileKey{}, 1000)
	defer table.release(f)
	if err := f.reread(lineReader{64}, maxPerfMap+1, table, time.Time{}); !errors.Is(err, errPerfRoom) {
		t.Errorf("a map of %d bytes: %v", maxPerfMap+1, err)
	}
	refused := false
	for i := 0; i < 20 && !refused; i++ {
		err := f.reread(lineReader{60 + i}, maxPerfMap/16, table, time.Time{})
		refused = errors.Is(err, errPerfRoom)
		if err != nil && !refused {
			t.Fatal(err)
		}
	}
	if !refused || table.held > maxPerfOthers || len(f.symbols) > maxPerfSymbols {
		t.Errorf("%d bytes held, %d names", table.held, len(f.symbols))
	}
}
