//go:build !linux || viewer

package demangle

import (
	"errors"
	"time"
)

// ask is for names that may be costly. What reads recordings and Reports elsewhere has them demangled already.
func ask(name string, _ Form) (text string, took time.Duration, err error) {
	return name, 0, errors.New("no long names are demangled by this viewer")
}

var began = time.Now()

// threadTime is time, where that of a thread is not known.
func threadTime() time.Duration { return time.Since(began) }
