//go:build linux && !viewer

package procfs

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// The kernel writes the lines of smaps_rollup in columns, up to 99,999,999 kB:
// the key with its colon, the number flush right, " kB". All processes' have
// the same keys in the same order, so a pass over a machine need not look for
// them again.
const (
	keyColumns    = 16
	numberColumns = 8
	columnsEnd    = " kB\n"
	columnsLine   = keyColumns + numberColumns + len(columnsEnd)
)

// columnKey is a line's key, and where its value goes.
type columnKey struct {
	head, tail uint64 // the columns of the key
	offset     uintptr
	known      bool // the value goes to that offset of a Memory
}

// rollupKeys are those of this kernel, learned from the first rollup that was
// parsed line by line.
var rollupKeys atomic.Pointer[[]columnKey]

// maxRollupKeys bounds what is learned; Linux 6.18 has 22.
const maxRollupKeys = 64

// learnColumns notes the keys of a text without its first line, if all of it is
// in columns. The first that is so is as good as any.
func learnColumns(data []byte) {
	if rollupKeys.Load() != nil {
		return
	}
	var keys []columnKey
	for ; len(data) >= columnsLine && len(keys) < maxRollupKeys; data = data[columnsLine:] {
		key, _, ok := text.Keyed(data[:columnsLine])
		if !ok || len(key) >= keyColumns || len(text.SkipBlanks(data[len(key)+1:keyColumns])) > 0 {
			return
		}
		offset, known := memoryField(key)
		keys = append(keys, columnKey{binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:]), offset, known})
	}
	if len(data) == 0 {
		rollupKeys.CompareAndSwap(nil, &keys)
	}
}

// parseColumns parses a text without its first line; ok says that it has the learned keys.
func parseColumns(data []byte) (m Memory, ok bool) {
	keys := rollupKeys.Load()
	if keys == nil || len(data) != len(*keys)*columnsLine {
		return m, false
	}
	for _, key := range *keys {
		line := data[:columnsLine]
		if binary.LittleEndian.Uint64(line) != key.head || binary.LittleEndian.Uint64(line[8:]) != key.tail {
			return m, false
		}
		value, ok := flushRight(binary.LittleEndian.Uint64(line[keyColumns:]))
		if !ok || string(line[keyColumns+numberColumns:]) != columnsEnd {
			return m, false
		}
		if key.known {
			*m.at(key.offset) = value << 10
		}
		data = data[columnsLine:]
	}
	return m, true
}

// flushRight is the number in eight columns, blanks and then digits, the first
// column in the lowest byte.
func flushRight(columns uint64) (uint64, bool) {
	const ones = 0x0101010101010101
	digits := columns >> 4 & ones // the columns that may be digits: '0' is 0x30, a blank 0x20
	blanks := bits.TrailingZeros64(digits) &^ 7
	low := columns & (0x0f * ones)
	switch {
	case digits == 0 || digits != ones<<blanks: // blanks come first
	case columns&(0xf0*ones) != 0x20*ones+digits<<4:
	case low&^(digits*0x0f) != 0 || (low+6*ones)&(0x10*ones) != 0: // no digit is above 9
	default:
		// Pairs of digits, then of these, then of those.
		low = (low*10 + low>>8) & 0x00ff00ff00ff00ff
		low = (low*100 + low>>16) & 0x0000ffff0000ffff
		return (low*10000 + low>>32) & 0xffffffff, true
	}
	return 0, false
}
