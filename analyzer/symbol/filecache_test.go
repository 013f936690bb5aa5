package symbol

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTableCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "memtrace", "symbols")
	c, err := OpenTableCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	content := []byte("rows")
	if err := c.Put("ab-1.tables", content); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ab-1.names", "../ab.tables", ""} {
		if c.Put(name, content) == nil {
			t.Errorf("a file was written under the name %q", name)
		}
	}
	if got := c.Get("ab-1.tables", 100); !bytes.Equal(got, content) {
		t.Errorf("read %q, want %q", got, content)
	}
	if c.Get("ab-1.tables", 3) != nil || c.Get("ab-2.tables", 100) != nil {
		t.Error("something was read beyond the limit, or of nothing")
	}
	path := filepath.Join(filepath.Dir(dir), "tables", "ab-1.tables")
	if err := os.Symlink(path, filepath.Join(filepath.Dir(path), "ab-3.tables")); err != nil {
		t.Fatal(err)
	}
	if c.Get("ab-3.tables", 100) != nil {
		t.Error("a symbolic link was followed")
	}
}
