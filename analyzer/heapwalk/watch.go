package heapwalk

import (
	"context"
	"errors"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/reach"
)

// A watch looks at blocks again and again: at their headers and what they
// begin with. A block that changes is in use.
type watch struct {
	m       *memory
	blocks  []reach.Leak // ascending
	sums    []uint64
	changed []bool
	bytes   uint64 // that are looked at of each
	looks   int
	buf     []byte
}

const (
	watchBytes    = 1 << 10
	watchFewBytes = 64      // where there are very many blocks
	watchMany     = 1 << 17 // blocks
	minLooks      = 8
	maxLooks      = 64
	watchAtOnce   = 256 // blocks in one call
)

func newWatch(m *memory, blocks []reach.Leak) *watch {
	w := &watch{m: m, blocks: blocks, bytes: watchBytes}
	if len(blocks) > watchMany {
		w.bytes = watchFewBytes
	}
	w.sums, w.changed = make([]uint64, len(blocks)), make([]bool, len(blocks))
	w.buf = make([]byte, watchAtOnce*(w.bytes+8))
	return w
}

// until looks at the blocks until a time comes, and often enough.
func (w *watch) until(ctx context.Context, end time.Time) error {
	for {
		if w.looks == 0 || w.looks < maxLooks && len(w.blocks) > 0 {
			if err := w.look(); err != nil {
				return err
			}
		}
		rest := time.Until(end)
		if rest <= 0 && (w.looks >= minLooks || len(w.blocks) == 0) {
			return nil
		}
		wait := pause()
		if rest > 0 {
			wait = min(rest, wait)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// look looks at all blocks once.
func (w *watch) look() error {
	w.looks++
	for from := 0; from < len(w.blocks); from += watchAtOnce {
		if err := w.lookAt(from, min(from+watchAtOnce, len(w.blocks))); err != nil {
			return err
		}
	}
	return nil
}

// length is how much of a block and its size field is looked at.
func (w *watch) length(l reach.Leak) uint64 { return 8 + min(l.Size&^7, w.bytes) }

func (w *watch) lookAt(from, to int) error {
	remote := make([]unix.RemoteIovec, 0, to-from)
	total := 0
	for _, l := range w.blocks[from:to] {
		n := int(w.length(l))
		remote = append(remote, unix.RemoteIovec{Base: uintptr(l.Addr - 8), Len: n})
		total += n
	}
	n, err := w.m.readv(w.buf[:total], remote)
	if err != nil && !errors.Is(err, unix.EFAULT) {
		return err
	}
	at := 0
	for i, l := range w.blocks[from:to] {
		at += int(w.length(l))
		if at > max(n, 0) { // this one is gone; those after it were not read
			w.changed[from+i] = true
			if to-from > 1 && from+i+1 < to {
				return w.lookAt(from+i+1, to)
			}
			return nil
		}
		w.compare(from+i, hashBytes(w.buf[at-int(w.length(l)):at]))
	}
	return nil
}

func (w *watch) compare(i int, sum uint64) {
	if w.looks == 1 {
		w.sums[i] = sum
	} else if w.sums[i] != sum {
		w.changed[i] = true
	}
}

// clear returns those blocks of found that have not changed, are not freed
// either in some list that was not seen, and that no block that is in use
// after all points to. found is part of what is watched.
func (w *watch) clear(found []reach.Leak, h *Heap) ([]reach.Leak, error) {
	alive := make([]bool, len(found))
	var queue []int
	for i, l := range found {
		k, ok := slices.BinarySearchFunc(w.blocks, l.Addr, compareLeak)
		freed, err := w.looksFreed(l, h)
		if err != nil {
			return nil, err
		}
		if !ok || w.changed[k] || freed {
			alive[i] = true
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		l := found[queue[0]]
		queue = queue[1:]
		err := w.m.eachWord(l.Addr, l.Size, func(word uint64) {
			k, exact := slices.BinarySearchFunc(found, word, compareLeak)
			if !exact {
				k--
			}
			if k >= 0 && word-found[k].Addr < max(found[k].Size, 1) && !alive[k] {
				alive[k] = true
				queue = append(queue, k)
			}
		})
		if err != nil && !errors.Is(err, errUnreadable) {
			return nil, err
		}
	}
	var kept []reach.Leak
	for i, l := range found {
		if !alive[i] {
			kept = append(kept, l)
		}
	}
	return kept, nil
}

func compareLeak(l reach.Leak, addr uint64) int {
	switch {
	case l.Addr < addr:
		return -1
	case l.Addr > addr:
		return 1
	}
	return 0
}

// maxFast is the size of the largest block that may be in a fastbin.
const maxFast = 0xb0 - 8

// looksFreed reports whether a block has the key of freed ones or, where lists
// could not be followed, a link of theirs.
func (w *watch) looksFreed(l reach.Leak, h *Heap) (bool, error) {
	if l.Size < 16 {
		return false, nil
	}
	var words [2]uint64
	if err := w.m.words(l.Addr, words[:]); err != nil {
		if errors.Is(err, errUnreadable) {
			return true, nil
		}
		return false, err
	}
	if h.keys[words[1]] {
		return true, nil
	}
	link := words[0] ^ l.Addr>>12
	if _, next := h.blocks.find(link); words[1] != 0 && words[0] != 0 && (link == 0 || next) {
		return true, nil // a list that was not seen
	}
	if h.Unlisted == 0 || l.Size > maxFast {
		return false, nil
	}
	_, linked := h.blocks.find(link + headBytes)
	_, plain := h.blocks.find(words[0] + headBytes)
	return words[0] == 0 || link == 0 || linked || plain, nil
}

// eachWord calls fn for the words of a block whose pages are there.
func (m *memory) eachWord(addr, size uint64, fn func(word uint64)) error {
	s := span{addr, addr + size&^7}
	v, err := m.view(s)
	if err != nil {
		return err
	}
	for at := s.start; at < s.end; {
		if gap := v.gap(at); gap > at {
			at = gap
			continue
		}
		n := min(s.end-at, viewBytes-pageBytes)
		b, err := v.at(at, n)
		if err != nil {
			return err
		}
		for i := range int(n / 8) {
			fn(*(*uint64)(unsafe.Pointer(&b[8*i])))
		}
		at += n
	}
	return nil
}
