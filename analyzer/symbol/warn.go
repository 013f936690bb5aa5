package symbol

import (
	"strings"
	"sync"
)

// maxWarnings bounds the warnings kept: names of files are the target's.
const maxWarnings = 256

// warnings keeps one warning a file.
type warnings struct {
	mu   sync.Mutex
	seen map[string]bool
	text []string
}

func (w *warnings) add(file, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[file] || len(w.text) >= maxWarnings {
		return
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[file] = true
	// Joined errors have a line each; a warning is one line.
	w.text = append(w.text, printable(strings.ReplaceAll(text, "\n", "; ")))
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.text...)
}
