//go:build linux && !viewer

package procfs

import (
	"bytes"
	"fmt"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// maxCounters bounds what one file may hold; vmstat has about 200.
const maxCounters = 4096

// Counters are the figures of a file of lines "name value" or "name: value
// kB", such as meminfo, vmstat and a cgroup's memory.stat. Kernels differ in
// which names they have, so a figure is asked for by the kernel's own name and
// may be absent. Values with the unit kB are in bytes, all others as they are.
//
// Counters that are parsed again into allocate nothing as long as the names
// stay the same. The zero value is ready for use.
type Counters struct {
	names  []string
	values []uint64
	index  map[string]int
}

// Get returns the figure of that name; ok is false where the kernel has none.
func (c *Counters) Get(name string) (v uint64, ok bool) {
	i, ok := c.index[name]
	if !ok {
		return 0, false
	}
	return c.values[i], true
}

// Len is the number of figures.
func (c *Counters) Len() int { return len(c.names) }

// At returns the figure at place i of the file, counted from zero.
func (c *Counters) At(i int) (name string, v uint64) { return c.names[i], c.values[i] }

// Parse replaces the figures by those of data.
func (c *Counters) Parse(data []byte) error {
	n := 0
	for len(data) > 0 {
		var line []byte
		line, data = text.CutLine(data)
		if len(line) == 0 {
			continue
		}
		name, v, ok := counter(line)
		if !ok {
			return fmt.Errorf("%w: line %.80q", ErrFormat, line)
		}
		if err := c.put(n, name, v); err != nil {
			return err
		}
		n++
	}
	c.cut(n)
	return nil
}

// Reset removes all figures.
func (c *Counters) Reset() { c.cut(0) }

// counter splits "name value", "name: value" or "name: value kB".
func counter(line []byte) (name []byte, v uint64, ok bool) {
	name, rest := text.Field(line)
	name = bytes.TrimSuffix(name, []byte(":"))
	rest = text.SkipBlanks(rest)
	v, rest, ok = text.Decimal(rest)
	if rest = text.SkipBlanks(rest); string(rest) == "kB" {
		ok = ok && v < 1<<54
		v <<= 10
	} else if len(rest) > 0 {
		ok = false
	}
	return name, v, ok && len(name) > 0
}

// put sets the figure at place n.
func (c *Counters) put(n int, name []byte, v uint64) error {
	if n < len(c.names) && c.names[n] == string(name) {
		c.values[n] = v
		return nil
	}
	if n >= maxCounters {
		return fmt.Errorf("%w: more than %d figures", ErrFormat, maxCounters)
	}
	c.cut(n) // the names are others than last time
	if c.index == nil {
		c.index = make(map[string]int)
	}
	own := string(name)
	c.names, c.values = append(c.names, own), append(c.values, v)
	if _, twice := c.index[own]; !twice {
		c.index[own] = n
	}
	return nil
}

// cut keeps the first n figures.
func (c *Counters) cut(n int) {
	for i := n; i < len(c.names); i++ {
		if c.index[c.names[i]] == i {
			delete(c.index, c.names[i])
		}
	}
	c.names, c.values = c.names[:n], c.values[:n]
}
