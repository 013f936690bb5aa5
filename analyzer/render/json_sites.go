package render

import (
	"bytes"

	"github.com/memtrace/memtrace/analyzer/report"
)

// maxKeptFrames bounds the frames whose text is kept, of some 300 bytes each.
const maxKeptFrames = 1 << 16

// writeSites writes the array of sites. Nearly all of a Report with all sites are
// frames, the same ones again and again: the text of each is made once.
func (d *document) writeSites(sites []report.Site) error {
	return d.array("    ", len(sites), func(i int) error { return d.writeSite(&sites[i]) })
}

// array writes n elements, laid out as encoding/json lays them out, each on lines of its own
// at an indent.
func (d *document) array(indent string, n int, element func(i int) error) error {
	begin, between, end := "\n"+indent, ",\n"+indent, "\n"+indent[2:]
	if d.compact || n == 0 {
		begin, between, end = "", ",", ""
	}
	d.to.WriteByte('[')
	for i := range n {
		if i == 0 {
			d.to.WriteString(begin)
		} else {
			d.to.WriteString(between)
		}
		if err := element(i); err != nil {
			return err
		}
	}
	d.to.WriteString(end)
	return d.to.WriteByte(']') // the first error of all
}

func (d *document) writeSite(s *report.Site) error {
	bare := *s
	bare.Stack = []*report.Frame{}
	bare.SizeHistogram = orEmpty(s.SizeHistogram)
	text, err := d.encode("    ", &bare)
	if err != nil {
		return err
	}
	before, after, err := cutArray(text, `"stack":`)
	if err != nil {
		return err
	}
	d.put(before)
	rest := bytes.Clone(after)
	if err := d.writeStack(s.Stack); err != nil {
		return err
	}
	d.put(rest)
	return nil
}

func (d *document) writeStack(stack []*report.Frame) error {
	return d.array("        ", len(stack), func(i int) error {
		text, err := d.frame(stack[i])
		d.to.Write(text) // Flush returns the first error of all
		return err
	})
}

// frame is the text of a frame within a site's stack.
func (d *document) frame(f *report.Frame) ([]byte, error) {
	if text, ok := d.frames[f]; ok {
		return text, nil
	}
	text, err := d.encode("        ", f)
	if err != nil {
		return nil, err
	}
	text = bytes.Clone(escapeUnprintable(text))
	if d.frames == nil || len(d.frames) >= maxKeptFrames {
		d.frames = make(map[*report.Frame][]byte)
	}
	d.frames[f] = text
	return text, nil
}
