package symbol

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/tracer/debugfile/elftest"
)

// packed is a compressed section of zeros, and of noise that keeps it within what one section may come to.
func packed(name string, size int) elftest.Section {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(size), Addralign: 1})
	w := zlib.NewWriter(&b)
	noise := make([]byte, size/40)
	for i, x := 0, uint64(88172645463325252); i < len(noise); i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		noise[i] = byte(x)
	}
	_, _ = w.Write(noise) // into memory
	_, _ = w.Write(make([]byte, size-len(noise)))
	_ = w.Close()
	return elftest.Section{Name: name, Section64: elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_COMPRESSED)}, Data: b.Bytes()}
}

// opened is the image of a file with the given content.
func opened(t *testing.T, data []byte) *image {
	t.Helper()
	img, err := openImage(&mappedFile{path: "hostile", data: data, owned: true, refs: 2})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestUnpackedTogether: the sections of a file may come to no more than they may together, each being within its own
// bounds; nor those of files that pay together; nor those of one that is opened again and again.
func TestUnpackedTogether(t *testing.T) {
	const size = 80 << 20
	names := []string{".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"}
	var sections []elftest.Section
	content := packed("", size)
	for _, name := range names {
		content.Name = name
		sections = append(sections, content)
	}
	img := opened(t, elftest.File(sections...))
	_, err := sectionsOf(img)
	if !errors.Is(err, errUnpacked) || img.unpackedBytes > maxUnpacked || img.unpackedBytes < size {
		t.Errorf("%d bytes decompressed, %v; want at most %d, and to be told of the rest", img.unpackedBytes, err, maxUnpacked)
	}
	img.close()
	var paid int64
	for range 4 {
		img := opened(t, elftest.File(sections[0]))
		img.paid = &paid
		_, err = img.section(".debug_info")
		defer img.close()
	}
	if !errors.Is(err, errUnpacked) || paid > maxUnpacked {
		t.Errorf("%d bytes decompressed of files that pay together, %v", paid, err)
	}
	file := &mappedFile{path: "hostile", data: elftest.File(packed(".debug_info", 1<<20)), owned: true, refs: 1 << 20}
	file.unpacked.Store(maxUnpacks*maxUnpacked + 1)
	again, err := openImage(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = again.section(".debug_info"); !errors.Is(err, errUnpacked) {
		t.Errorf("%v for a file that was decompressed too often", err)
	}
}

// TestAddressSpace: what the files of one user take does not keep those of others from being mapped, and
// comes back.
func TestAddressSpace(t *testing.T) {
	var a addressSpace
	const size = maxFileSize
	taken := 0
	for a.take(1000, size) == nil {
		taken++
	}
	if taken != maxMappedOwner/size {
		t.Errorf("%d files of %d bytes of one user", taken, size)
	}
	for _, owner := range []uint32{0, 1001} {
		if err := a.take(owner, size); err != nil {
			t.Errorf("user %d: %v", owner, err)
		}
	}
	a.give(1000, size)
	if err := a.take(1000, size); err != nil {
		t.Errorf("after one was let go of: %v", err)
	}
	if a.take(0, size+1) == nil || a.take(0, -1) == nil {
		t.Error("no error on a size that is out of bounds")
	}
}

// TestSparseFiles: files without any content are not mapped, and those that claim to be ELF files count as long as
// they are.
func TestSparseFiles(t *testing.T) {
	table := fileTable{files: map[fileKey]*mappedFile{}}
	var held []*mappedFile
	for i := range 20 {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if i%2 == 0 {
			if _, err := f.WriteString(elf.ELFMAG); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Truncate(1 << 33); err != nil {
			t.Fatal(err)
		}
		m, err := table.open(int(f.Fd()), path)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, m)
	}
	if table.space.total != 10<<33 {
		t.Errorf("%d bytes mapped, want those of ten files that say to be ELF files", table.space.total)
	}
	for _, m := range held {
		table.release(m)
	}
	if table.space.total != 0 || len(table.space.owners) != 0 {
		t.Errorf("%d bytes count as mapped of files that are not", table.space.total)
	}
}

// TestSymbolTables: several headers of one table don't make it several, and names are not copied to be looked at.
func TestSymbolTables(t *testing.T) {
	const count = 1 << 14
	symbols := bytes.Repeat([]byte{0, 0, 0, 0, byte(elf.STT_NOTYPE), 0, 1, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, count)
	table := elftest.Section{Name: ".symtab", Section64: elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 1}, Data: symbols}
	names := elftest.Section{Name: ".strtab", Section64: elf.Section64{Type: uint32(elf.SHT_STRTAB)}, Data: append(bytes.Repeat([]byte("$"), maxName), 0)}
	sections := []elftest.Section{names, table}
	for range 8 {
		copied := table
		copied.Off, copied.Size, copied.Data = uint64(64+64*12+len(names.Data)), uint64(len(symbols)), nil
		sections = append(sections, copied)
	}
	img := opened(t, elftest.File(sections...))
	defer img.close()
	var read symtab
	visited := 0
	var err error
	n := elftest.Allocated(func() {
		err = read.addTables(img, func(uint64) bool { visited++; return true })
	})
	if !errors.Is(err, errSymtabs) || visited > len(img.file.data)/symbolSize {
		t.Errorf("%d symbols looked at in a file of %d bytes, %v", visited, len(img.file.data), err)
	}
	if n > 32<<20 {
		t.Errorf("%d MiB taken for names that were looked at", n>>20)
	}
}

// TestEvictionByMemory: what all files hold is bounded, whoever they belong to: the ones unused for longest are let go of.
func TestEvictionByMemory(t *testing.T) {
	r := newResolver(t, Options{})
	for i := range 100 {
		f := &mappedFile{key: fileKey{ino: uint64(i)}, owned: true, refs: 2}
		m := r.enter(f, ownView)
		m.held.Store(maxHeld / 10)
		r.leave(m)
		if r.held > maxHeld {
			t.Fatalf("%d bytes held after %d files", r.held, i)
		}
	}
	if len(r.modules) == 0 || len(r.modules) > 10 {
		t.Errorf("%d files held of a tenth of the room each", len(r.modules))
	}
}

// TestCachedBytes: long names fill a cache as many short ones do.
func TestCachedBytes(t *testing.T) {
	g := generations[int, string]{size: func(s string) int { return len(s) }}
	long := string(make([]byte, maxName))
	for i := range maxCached {
		g.put(i, long)
	}
	if n := (len(g.young) + len(g.old)) * maxName; n > 2*maxCachedBytes+2*maxName || n < maxCachedBytes {
		t.Errorf("%d bytes of names are held, want some %d", n, 2*maxCachedBytes)
	}
}
