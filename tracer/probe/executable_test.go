package probe

import (
	"os"
	"path/filepath"
	"testing"
)

// Anonymous code is a file's where it fills what two parts of that leave out, and nowhere else.
func TestMovedCodeIsItsFiles(t *testing.T) {
	const text = `400000-410000 r-xp 00001000 fe:01 77 /bin/x
410000-600000 r-xp 00000000 00:00 0
600000-610000 r-xp 00201000 fe:01 77 /bin/x
700000-710000 r-xp 00000000 fe:01 78 /lib/y
710000-720000 r-xp 00000000 00:00 0
720000-730000 r-xp 00030000 fe:01 78 /lib/y
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
	want := Mapping{Range: Range{Start: 0x410000, End: 0x600000, Offset: 0x11000}, Major: 0xfe, Minor: 1, Inode: 77, Path: "/bin/x"}
	if len(got) != 6 || got[1] != want || got[4].Inode != 0 {
		t.Errorf("got %+v", got)
	}
}
