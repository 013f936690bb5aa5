package report

import (
	"bytes"
	"errors"

	"github.com/memtrace/memtrace/analyzer"
)

// maxKeptFrames bounds the frames whose text is kept, of some 300 bytes each.
const maxKeptFrames = 1 << 16

// writeSites writes the array, laid out as encoding/json lays it out. Nearly all of a
// Report with all sites are frames, the same ones again and again: the text of each
// is made once.
func (d *document) writeSites(sites []analyzer.Site) error {
	begin, between, end := "\n    ", ",\n    ", "\n  "
	if d.compact || len(sites) == 0 {
		begin, between, end = "", ",", ""
	}
	d.to.WriteByte('[')
	for i := range sites {
		if i == 0 {
			d.to.WriteString(begin)
		} else {
			d.to.WriteString(between)
		}
		if err := d.writeSite(&sites[i]); err != nil {
			return err
		}
	}
	d.to.WriteString(end)
	return d.to.WriteByte(']') // the first error of all
}

func (d *document) writeSite(s *analyzer.Site) error {
	bare := *s
	bare.Stack = []*analyzer.Frame{}
	bare.SizeHistogram = orEmpty(s.SizeHistogram)
	text, err := d.encode("    ", &bare)
	if err != nil {
		return err
	}
	// In a string the quotes would be escaped, and no other key is called so.
	const key = `"stack":`
	before, after, found := bytes.Cut(text, []byte(key))
	brackets := bytes.IndexByte(after, ']') + 1 // of the empty array
	if !found || brackets == 0 {
		return errors.New("a site has no stack")
	}
	d.put(before)
	d.to.WriteString(key)
	d.space()
	rest := bytes.Clone(after[brackets:])
	if err := d.writeStack(s.Stack); err != nil {
		return err
	}
	d.put(rest)
	return nil
}

func (d *document) writeStack(stack []*analyzer.Frame) error {
	begin, between, end := "\n        ", ",\n        ", "\n      "
	if d.compact || len(stack) == 0 {
		begin, between, end = "", ",", ""
	}
	d.to.WriteByte('[')
	for i := range stack {
		if i == 0 {
			d.to.WriteString(begin)
		} else {
			d.to.WriteString(between)
		}
		text, err := d.frame(stack[i])
		if err != nil {
			return err
		}
		d.to.Write(text)
	}
	d.to.WriteString(end)
	return d.to.WriteByte(']')
}

// frame is the text of a frame within a site's stack.
func (d *document) frame(f *analyzer.Frame) ([]byte, error) {
	if text, ok := d.frames[f]; ok {
		return text, nil
	}
	text, err := d.encode("        ", f)
	if err != nil {
		return nil, err
	}
	text = bytes.Clone(escapeUnprintable(text))
	if d.frames == nil || len(d.frames) >= maxKeptFrames {
		d.frames = make(map[*analyzer.Frame][]byte)
	}
	d.frames[f] = text
	return text, nil
}
