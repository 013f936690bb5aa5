package snapshot

import (
	"errors"
	"fmt"
)

// A file says what it holds in far fewer bytes than that takes in memory: an
// empty argument is two bytes of a block, which compresses to nothing, and
// sixteen in memory. So what is decoded is counted, byte by byte, and a reader
// takes so much and no more.

// DefaultRoom is how many bytes Read and Open let a snapshot take: that of
// some ten thousand processes with two hundred components each.
const DefaultRoom = 200 << 20

// ErrTooLarge means that a snapshot takes more memory than its reader has for it.
var ErrTooLarge = errors.New("the snapshot takes too much memory")

// What a reader counts of each sort beside its text, bytes: the record itself,
// and what those who arrange it (package matrix) keep of each.
const (
	costString    = 16
	costFigure    = 32
	costComponent = 192
	costUse       = 72
	costProcess   = 512
	costPassing   = 40
	costRun       = 32
	costPages     = 64
)

// room is what a reader may take yet.
type room struct{ limit, used uint64 }

// take counts bytes of what is about to be made.
func (r *room) take(what string, bytes uint64) error {
	if r.used += bytes; r.used > r.limit {
		return fmt.Errorf("%w: with its %s more than %d bytes, which is the limit", ErrTooLarge, what, r.limit)
	}
	return nil
}

// text counts a string, whose bytes a field holds.
func (r *room) text(what string, f field) error { return r.take(what, costString+uint64(len(f.data))) }

// count returns how many fields of a number a message has, so that there is a
// list of the right size for them from the start.
func count(msg []byte, number int) (n int, err error) {
	err = eachField(msg, func(f field) error {
		if f.number == number {
			n++
		}
		return nil
	})
	return n, err
}
