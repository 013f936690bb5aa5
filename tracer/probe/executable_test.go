package probe

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/procfs"
)

// Anonymous code is a file's where it fills what two parts of that leave out, and nowhere else.
func TestMovedCodeIsItsFiles(t *testing.T) {
	const text = `400000-410000 r-xp 00001000 fe:01 77 /bin/x
410000-600000 r-xp 00000000 00:00 0
600000-610000 r-xp 00201000 fe:01 77 /bin/x
700000-710000 r-xp 00000000 fe:01 78 /lib/y
710000-720000 r-xp 00000000 00:00 0
720000-730000 r-xp 00030000 fe:01 78 /lib/y
800000-810000 r--p 00000000 fe:01 79 /lib/z
810000-820000 r-xp 00000000 00:00 0
820000-830000 r--p 00020000 fe:01 79 /lib/z
`
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "1", "maps"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Executable(root, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := Mapping{
		Range: Range{Start: 0x410000, End: 0x600000, Offset: 0x11000}, Major: 0xfe, Minor: 1, Inode: 77, Path: "/bin/x",
		moved: true,
	}
	whole := Mapping{
		Range: Range{Start: 0x810000, End: 0x820000, Offset: 0x10000}, Major: 0xfe, Minor: 1, Inode: 79, Path: "/lib/z",
		moved: true,
	}
	if len(got) != 7 || got[1] != want || got[4].Inode != 0 || got[6] != whole {
		t.Errorf("got %+v", got)
	}
}

// TestExecutableOfManyMappings: a file mapped as often as the kernel allows, by
// the longest of paths, has that path once.
func TestExecutableOfManyMappings(t *testing.T) {
	from, to := io.Pipe()
	long := "/" + strings.Repeat("d", 4095)
	go func() {
		for i := range 65_530 {
			at := 0x7f0000000000 + i<<13
			fmt.Fprintf(to, "%x-%x r-xp 00001000 fe:01 7                       %s\n", at, at+0x1000, long)
		}
		to.Close()
	}()
	got, err := executable(func(fn func(*procfs.VMA) bool) (bool, error) { return procfs.CodeIn(from, fn) })
	if err != nil || len(got) != 65_530 {
		t.Fatalf("%d mappings, %v", len(got), err)
	}
	for i := range got {
		if got[i].Path != long || unsafe.StringData(got[i].Path) != unsafe.StringData(got[0].Path) {
			t.Fatalf("mapping %d has a path of its own", i)
		}
	}
}
