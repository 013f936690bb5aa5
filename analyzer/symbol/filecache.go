package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tablesSuffix is what the names of files of unwinding tables end in.
const tablesSuffix = ".tables"

// FileCache keeps files from one run to the next, beside the names and under
// the same rules: in a directory that nobody else can write to, the ones
// unused for longest going first. It may be used from several goroutines.
type FileCache struct{ store *store }

// OpenTableCache opens the cache of unwinding tables that lies beside the
// symbol cache dir, such as DefaultCacheDir.
func OpenTableCache(dir string) (*FileCache, error) {
	s, err := openStore(filepath.Join(filepath.Dir(dir), "tables"), tablesSuffix)
	if err != nil {
		return nil, err
	}
	return &FileCache{s}, nil
}

// Get returns the content of a file of at most limit bytes, nil where there is none.
func (c *FileCache) Get(name string, limit int64) []byte {
	fd, size := c.store.open(name, limit)
	if fd < 0 {
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); err != nil || int64(n) != size {
		return nil
	}
	c.store.touch(name)
	return data
}

// Put keeps a file, whose name must end in ".tables".
func (c *FileCache) Put(name string, data []byte) error {
	if !strings.HasSuffix(name, tablesSuffix) || strings.ContainsRune(name, '/') {
		return fmt.Errorf("keep %q: not the name of a file of tables", name)
	}
	return c.store.write(name, data)
}

// Close lets go of the directory. A nil FileCache has none.
func (c *FileCache) Close() {
	if c != nil {
		c.store.close()
	}
}
