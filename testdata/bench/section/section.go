// Package section lets several benchmarks write their parts of one document:
// each between two comments that name it.
package section

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

var marked = regexp.MustCompile(`(?s)<!-- begin (\w+) -->\n.*?<!-- end (\w+) -->\n`)

func wrap(name, body string) string {
	return fmt.Sprintf("<!-- begin %s -->\n%s<!-- end %s -->\n", name, body, name)
}

// Write puts a section into the document at path, in place of the one of that
// name or at the end.
func Write(path, name, body string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	found := false
	out := marked.ReplaceAllStringFunc(string(text), func(old string) string {
		if !strings.HasPrefix(old, "<!-- begin "+name+" -->") {
			return old
		}
		found = true
		return wrap(name, body)
	})
	if !found {
		out = strings.TrimRight(out, "\n") + "\n\n" + wrap(name, body)
	}
	return os.WriteFile(path, []byte(out), 0o644)
}

// Rewrite writes a new document to path and keeps the sections of the old one.
func Rewrite(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read the document: %w", err)
	}
	for _, kept := range marked.FindAllString(string(old), -1) {
		text = strings.TrimRight(text, "\n") + "\n\n" + kept
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
