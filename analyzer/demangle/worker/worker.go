// Package worker makes a process of memtrace's own executable one that demangles names, each within bounds that the
// kernel keeps: a process can be ended in the middle of one, and what it holds is gone with it. A goroutine can't.
//
// It does so as its init, before most other packages have theirs (see package shim of tracer/launch).
package worker

import (
	"time"

	"github.com/ianlancetaylor/demangle"
)

// Name is argv[0] of an executable with this package in it that is to demangle names.
const Name = "memtrace-names"

const (
	// MaxTime is the processor time that a name may take. Those of real programs take 10 ms at most, where others
	// want the processor, too.
	MaxTime = 200 * time.Millisecond

	MaxName    = 1 << 14 // bytes of a name
	maxTextPow = 14
	MaxText    = 1 << maxTextPow // bytes of what comes of it
)

// A request is its Form, a byte, the length of the name, two bytes, and the name. An answer is the processor time, ns,
// in eight bytes, the length of the text, two bytes, and the text. Numbers are little-endian.
const (
	RequestHeader = 3
	AnswerHeader  = 10
)

// Form says how a name is to be written.
type Form byte

const (
	// Full names have parameters and template arguments, as c++filt.
	Full Form = iota
	// Short names leave both out.
	Short
)

// Demangle returns the readable form of a name, or the name itself where it has none.
func Demangle(name string, form Form) (text string) {
	// A name is input like any other; the parser of names has had its bugs.
	defer func() {
		if recover() != nil {
			text = name
		}
	}()
	options := []demangle.Option{demangle.MaxLength(maxTextPow)}
	if form == Short {
		options = append(options, demangle.NoParams, demangle.NoTemplateParams, demangle.NoEnclosingParams)
	}
	return demangle.Filter(name, options...)
}
