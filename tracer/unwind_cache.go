package tracer

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/memtrace/memtrace/tracer/unwind"
)

// FileCache keeps files from one run to the next. Its methods may be called
// concurrently.
type FileCache interface {
	// Get returns the content of a file of at most limit bytes, nil where
	// there is none.
	Get(name string, limit int64) []byte
	// Put keeps a file.
	Put(name string, data []byte) error
}

// minCached is the least call frame information whose tables are worth
// keeping: they are made within a fraction of a millisecond below it.
const minCached = 8 << 10

// tableCache has the unwinding tables that earlier runs made.
type tableCache struct {
	files  FileCache // nil: none
	writes sync.WaitGroup
}

// tableKey is a hash of all that tables are made from: what has the same has the same tables, whatever file it is of.
type tableKey [sha256.Size]byte

// tables returns the tables of what has the key, from the cache or made anew.
func (c *tableCache) tables(source *unwind.Source, key tableKey) (*unwind.File, error) {
	if c.files == nil || source.Bytes() < minCached {
		return source.Build()
	}
	name := hex.EncodeToString(key[:20]) + ".tables"
	if data := c.files.Get(name, unwind.MaxPacked); data != nil {
		if file, err := unwind.Unpack(data, key); err == nil {
			return file, nil
		}
	}
	file, err := source.Build()
	if err == nil {
		// A file that can't be kept is made again the next time.
		c.writes.Go(func() { _ = c.files.Put(name, file.Pack(key)) })
	}
	return file, err
}
