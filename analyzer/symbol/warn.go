package symbol

import (
	"fmt"
	"strings"
	"sync"
)

// maxWarnings bounds the warnings kept: names of files are the target's.
const maxWarnings = 256

// maxCounted bounds how many more files are counted.
const maxCounted = 1 << 14

// warnings keeps one warning a file.
type warnings struct {
	mu   sync.Mutex
	seen map[string]bool
	text []string
	more int // files of which no warning is kept
}

func (w *warnings) add(file, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[file] || w.more >= maxCounted {
		return
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[file] = true
	if len(w.text) >= maxWarnings {
		w.more++
		return
	}
	// Joined errors have a line each; a warning is one line.
	w.text = append(w.text, printable(strings.ReplaceAll(text, "\n", "; ")))
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := append([]string(nil), w.text...)
	if w.more > 0 {
		list = append(list, fmt.Sprintf("%d more files could not be read as they should", w.more))
	}
	return list
}
