package debugfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
	"github.com/memtrace/memtrace/tracer/debugfile/elftest"
)

// elfFile writes an ELF file for amd64 with the given sections, of which the
// last one has the names; data lies behind the headers, at dataAt.
func elfFile(sections []elf.Section64, data []byte) []byte {
	var b bytes.Buffer
	head := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Phentsize: 56,
		Shoff: 64, Shentsize: sectionHeader, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1),
	}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	for _, part := range []any{head, sections, data} {
		_ = binary.Write(&b, binary.LittleEndian, part) // into memory
	}
	return b.Bytes()
}

func dataAt(sections int) uint64 { return 64 + uint64(sections)*sectionHeader }

// sparse is a file that is all zeros behind its beginning.
type sparse struct {
	begin []byte
	size  int64
}

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), s.size-off))
	clear(p[:n])
	if off < int64(len(s.begin)) {
		copy(p[:n], s.begin[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// hostileHeaders are files whose headers claim more than there is any use for.
func hostileHeaders() map[string]io.ReaderAt {
	const many = 2000
	shared := make([]elf.Section64, many+1)
	for i := range shared {
		shared[i] = elf.Section64{Type: uint32(elf.SHT_PROGBITS)}
	}
	name := append(bytes.Repeat([]byte("a"), 1<<20), 0)
	shared[many] = elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: dataAt(many + 1), Size: uint64(len(name))}
	var tails []elf.Section64 // each name is the end of the one before
	for i := range 1000 {
		tails = append(tails, elf.Section64{Name: uint32(i)})
	}
	tails = append(tails, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: dataAt(1001), Size: uint64(len(name))})
	const huge = 64 << 30
	table := elfFile([]elf.Section64{{}, {Type: uint32(elf.SHT_STRTAB), Off: 1 << 13, Size: huge}}, nil)
	counted := elfFile([]elf.Section64{{Size: 1 << 30}}, nil)
	binary.LittleEndian.PutUint32(counted[60:], 0) // their number stands in the first
	segments := elfFile([]elf.Section64{{}}, nil)
	binary.LittleEndian.PutUint16(segments[56:], 0xffff)
	binary.LittleEndian.PutUint64(segments[32:], 64)
	return map[string]io.ReaderAt{
		"names that are one":        bytes.NewReader(elfFile(shared, name)),
		"names that are tails":      bytes.NewReader(elfFile(tails, name)),
		"a sparse table of names":   sparse{table, huge + 1<<13},
		"a number of sections":      sparse{counted, huge},
		"a number of segments":      sparse{segments, huge},
		"more sections than honest": bytes.NewReader(elfFile(make([]elf.Section64, 60000), nil)),
	}
}

// TestHostileHeaders leaves such files alone before it takes memory for them.
func TestHostileHeaders(t *testing.T) {
	const limit = 24 << 20
	for what, r := range hostileHeaders() {
		var err error
		if n := elftest.Allocated(func() { _, err = ReadELF(r) }); n > limit || !errors.Is(err, ErrHeaders) {
			t.Errorf("%s: %d bytes taken, %v; want at most %d, and an error that says why", what, n, err, limit)
		}
	}
}

// TestHostileTables neither reads a sparse dynamic section or table of symbols
// nor takes memory for it.
func TestHostileTables(t *testing.T) {
	const huge = 60 << 30
	names := []byte("\x00.x\x00")
	for _, kind := range []elf.SectionType{elf.SHT_DYNAMIC, elf.SHT_DYNSYM, elf.SHT_SYMTAB, elf.SHT_STRTAB} {
		sections := []elf.Section64{
			{}, {Name: 1, Type: uint32(kind), Off: 1 << 13, Size: huge, Link: 2},
			{Name: 1, Type: uint32(elf.SHT_STRTAB), Off: 1 << 13, Size: huge},
			{Name: 1, Type: uint32(elf.SHT_SYMTAB), Off: 1 << 12, Size: 4 * symbolSize, Link: 2},
			{Type: uint32(elf.SHT_STRTAB), Off: dataAt(5), Size: uint64(len(names))},
		}
		r := sparse{elfFile(sections, names), huge + 1<<13}
		n := elftest.Allocated(func() {
			f, err := ReadELF(r)
			if err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			if needed, found := Needed(f), FindSymbols(f, "malloc"); needed > 0 || len(found) > 0 {
				t.Errorf("%v: %d libraries and %v in nothing but zeros", kind, needed, found)
			}
		})
		if n > 8<<20 {
			t.Errorf("%v: %d bytes taken", kind, n)
		}
	}
}

// TestHeadersAreReadOnce: headers that change between two looks are those of the first one.
func TestHeadersAreReadOnce(t *testing.T) {
	sections := []elf.Section64{{}, {Type: uint32(elf.SHT_STRTAB), Off: dataAt(2), Size: 8}}
	data := elfFile(sections, []byte("\x00names\x00\x00"))
	want := bytes.Clone(data)
	f := &frozen{ReaderAt: bytes.NewReader(data)}
	if err := checkHeaders(f); err != nil {
		t.Fatal(err)
	}
	clear(data)
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v: %q; it was %q", err, got, want)
	}
}

// TestFindSymbols finds what debug/elf has in the go command and the C library.
func TestFindSymbols(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for path, names := range map[string][]string{
		goCommand:                         {"runtime.systemstack.abi0", "runtime.mallocgc", "no such function"},
		"/lib/x86_64-linux-gnu/libc.so.6": {"exit", "quick_exit", "malloc", "execve"},
	} {
		r, err := os.Open(path)
		if err != nil {
			continue // another machine
		}
		defer r.Close()
		f, err := ReadELF(r)
		if err != nil {
			t.Fatal(err)
		}
		var want []elf.Symbol
		for _, list := range []func() ([]elf.Symbol, error){f.DynamicSymbols, f.Symbols} {
			all, _ := list() // an error where there are none
			for _, s := range all {
				if slices.Contains(names, s.Name) {
					s.Version, s.Library, s.HasVersion, s.VersionIndex = "", "", false, 0
					want = append(want, s)
				}
			}
		}
		if got := FindSymbols(f, names...); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: %v; debug/elf has %v", path, got, want)
		}
		libraries, err := f.ImportedLibraries()
		if n := Needed(f); err != nil || n != len(libraries) {
			t.Errorf("%s needs %d libraries; debug/elf says %v, %v", path, n, libraries, err)
		}
	}
}

// FuzzELF reads headers, and takes no more memory than an honest file's need.
func FuzzELF(f *testing.F) {
	for _, r := range hostileHeaders() {
		begin := make([]byte, 1<<12)
		_, _ = r.ReadAt(begin, 0) // shorter is as good
		f.Add(begin)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		n := elftest.Allocated(func() {
			if e, err := ReadELF(sparse{data, 1 << 40}); err == nil {
				Needed(e)
				FindSymbols(e, "malloc")
			}
		})
		if n > 128<<20 {
			t.Errorf("%d bytes taken for a file of %d", n, len(data))
		}
	})
}
