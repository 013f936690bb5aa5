package render

import (
	"bytes"
	"strings"
)

// style is an ANSI SGR parameter; the empty style leaves text as it is.
type style string

const (
	plain   style = ""
	bold    style = "1"
	dim     style = "2"
	warning style = "33" // yellow
	alarm   style = "31" // red
)

// page collects lines of text that fit a width. It is the one place where
// colour is added and where lines are cut, both after the text was cleaned.
type page struct {
	lines []string
	width int // 0: no limit
	color bool
}

// line adds one line, cleaned and cut to the page's width.
func (p *page) line(st style, text string) {
	text = clip(clean(strings.TrimRight(text, " ")), p.width)
	if p.color && st != plain && text != "" {
		text = "\x1b[" + string(st) + "m" + text + "\x1b[0m"
	}
	p.lines = append(p.lines, text)
}

// flow adds items separated by gap, starting with the label and wrapping
// between items to further lines indented to the label's width, by two at least.
func (p *page) flow(st style, label string, items []string, gap string) {
	indent := strings.Repeat(" ", max(columns(label), 2))
	line, empty := label, true
	stop := strings.TrimRight(gap, " ") // stays at the end of a wrapped line
	for i, item := range items {
		if item == "" {
			continue
		}
		next := line + item
		if !empty {
			next = line + gap + item
		}
		room := p.width
		if i < len(items)-1 {
			room -= len(stop)
		}
		if p.width > 0 && columns(next) > room && !empty {
			p.line(st, line+stop)
			next = indent + item
		}
		line, empty = next, false
	}
	p.line(st, line)
}

// prose adds a sentence, wrapped between words under a hanging indent.
func (p *page) prose(st style, label, sentence string) {
	words := strings.Fields(clean(sentence))
	if room := p.width - columns(label); p.width > 0 && room > 0 {
		for i, word := range words {
			words[i] = elide(word, room)
		}
	}
	p.flow(st, label, words, " ")
}

func (p *page) bytes() []byte {
	var b bytes.Buffer
	for _, line := range p.lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}
