package cmdline

import (
	"strings"
	"unicode/utf8"
)

// wrap breaks a text into lines of at most width columns, at blanks. A word
// that is longer has a line of its own, broken after a comma or slash if it has one.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		for {
			switch {
			case line == "" && columns(word) <= width:
				line = word
			case line != "" && columns(line)+1+columns(word) <= width:
				line += " " + word
			case line != "":
				lines, line = append(lines, line), ""
				continue
			default:
				head, tail := split(word, width)
				lines, word = append(lines, head), tail
				continue
			}
			break
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// split cuts a word that is longer than width, behind a comma, a slash or a
// bracket where it has one.
func split(word string, width int) (head, tail string) {
	runes := []rune(word)
	width = max(width, 1)
	at := width
	for i := width; i > width/2; i-- {
		if strings.ContainsRune(",/|]=", runes[i-1]) {
			at = i
			break
		}
	}
	return string(runes[:at]), string(runes[at:])
}

func columns(s string) int { return utf8.RuneCountInString(s) }

// pad fills a text with blanks.
func pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-columns(s))) }

// A page is a text of lines of at most width columns.
type page struct {
	strings.Builder
	width int
}

func (p *page) line(s string) {
	p.WriteString(strings.TrimRight(s, " "))
	p.WriteByte('\n')
}

// heading begins a part.
func (p *page) heading(s string) {
	p.WriteByte('\n')
	p.line(s + ":")
}

// paragraph writes a wrapped text, each line indented.
func (p *page) paragraph(indent int, text string) {
	for _, line := range wrap(text, p.width-indent) {
		p.line(strings.Repeat(" ", indent) + line)
	}
}

// row writes a key and, from a column on, a text; below the key if that is too long.
func (p *page) row(key string, column int, text string) {
	lines := wrap(text, p.width-column)
	if columns(key) > column-2 || len(lines) == 0 {
		for i, part := range wrapKey(key, p.width) {
			p.line(strings.Repeat(" ", 4*min(i, 1)) + part)
		}
	} else {
		p.line(pad(key, column) + lines[0])
		lines = lines[1:]
	}
	for _, line := range lines {
		p.line(strings.Repeat(" ", column) + line)
	}
}

// wrapKey breaks a key that is wider than the page, as a long metavariable is.
func wrapKey(key string, width int) []string {
	if columns(key) <= width {
		return []string{key}
	}
	indent := key[:len(key)-len(strings.TrimLeft(key, " "))]
	lines := wrap(key, width-len(indent)-4)
	lines[0] = indent + lines[0]
	for i := range lines[1:] {
		lines[i+1] = indent + lines[i+1]
	}
	return lines
}
