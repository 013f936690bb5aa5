//go:build linux && !viewer

package procfs

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// NumaVMA is a line of /proc/PID/numa_maps: on which nodes the pages of a
// mapping are. Sizes are in bytes.
type NumaVMA struct {
	Start  uint64
	Policy []byte // memory policy, such as "default" or "bind:0-1"; valid in the callback
	// Nodes has what is resident on each node, by node ID; valid in the
	// callback. Huge pages of hugetlbfs are counted, which no RSS counts.
	Nodes []uint64
	Anon  uint64
	Dirty uint64
	// PageSize is that of the mapping: larger than a base page for hugetlbfs.
	PageSize uint64
}

// numaReader is what reading numa_maps needs; it is pooled for its buffers.
type numaReader struct {
	file  fdReader
	lines lineReader
	vma   NumaVMA
	nodes []uint64
}

var numaReaders = sync.Pool{New: func() any { return new(numaReader) }}

// NumaMaps calls fn for each mapping of the process in ascending order, from
// /proc/PID/numa_maps (CONFIG_NUMA; numa(7)). It walks the page tables, as
// smaps does, and needs the same privileges.
func (p *Process) NumaMaps(fn func(*NumaVMA)) error {
	n, err := p.readNuma(fn)
	if n == 0 && (err == nil || OutcomeOf(err) == Gone) {
		if p.adoptThread() {
			_, err = p.readNuma(fn)
		} else if err == nil {
			err = p.wrap("read", plain(fileNuma), p.whyNoMemory())
		}
	}
	return err
}

func (p *Process) readNuma(fn func(*NumaVMA)) (int, error) {
	fd, err := openAt(p.memoryDir(), fileNuma)
	if err != nil {
		return 0, p.wrap("open", plain(fileNuma), err)
	}
	r := numaReaders.Get().(*numaReader)
	defer numaReaders.Put(r)
	r.file.fd = fd
	defer r.file.close()
	n, err := r.parse(&r.file, fn)
	if err != nil {
		err = p.wrap("read", plain(fileNuma), err)
	}
	return n, err
}

// parse calls fn for each line of src and returns how many there are.
func (r *numaReader) parse(src io.Reader, fn func(*NumaVMA)) (int, error) {
	r.lines.reset(src)
	for n := 0; ; n++ {
		line, err := r.lines.next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		if err := r.line(line); err != nil {
			return n, err
		}
		fn(&r.vma)
	}
}

// line parses "55b56add9000 default file=/usr/bin/head mapped=2 N0=2 kernelpagesize_kB=4".
// Paths have no blanks: the kernel writes "\040".
func (r *numaReader) line(line []byte) error {
	start, rest, ok := text.Hexadecimal(line)
	policy, rest := text.Field(rest)
	if !ok || len(policy) == 0 {
		return fmt.Errorf("%w: line %.80q", ErrFormat, line)
	}
	r.nodes = r.nodes[:0]
	r.vma = NumaVMA{Start: start, Policy: policy, PageSize: pageSize}
	for len(rest) > 0 {
		var f []byte
		f, rest = text.Field(rest)
		key, value, _ := bytes.Cut(f, []byte("="))
		if !r.field(key, value) {
			return fmt.Errorf("%w: line %.80q", ErrFormat, line)
		}
	}
	return r.inBytes()
}

// field takes one "key=value"; it reports false on a number that is none.
func (r *numaReader) field(key, value []byte) (ok bool) {
	switch {
	case string(key) == "anon":
		r.vma.Anon, _, ok = text.Decimal(value)
	case string(key) == "dirty":
		r.vma.Dirty, _, ok = text.Decimal(value)
	case string(key) == "kernelpagesize_kB":
		r.vma.PageSize, ok = text.Kilobytes(value)
	case len(key) > 1 && key[0] == 'N' && key[1] >= '0' && key[1] <= '9':
		return r.node(key[1:], value)
	default:
		ok = true
	}
	return ok
}

// maxNodes is the kernel's MAX_NUMNODES at its largest.
const maxNodes = 1024

func (r *numaReader) node(id, value []byte) bool {
	node, _, ok := text.Decimal(id)
	pages, _, okPages := text.Decimal(value)
	if !ok || !okPages || node >= maxNodes {
		return false
	}
	for uint64(len(r.nodes)) <= node {
		r.nodes = append(r.nodes, 0)
	}
	r.nodes[node] = pages
	return true
}

// inBytes turns the counts of pages into bytes, now that the page size is known.
func (r *numaReader) inBytes() error {
	size := r.vma.PageSize
	if size == 0 || size > 1<<40 {
		return fmt.Errorf("%w: page size %d", ErrFormat, size)
	}
	most := max(r.vma.Anon, r.vma.Dirty)
	for _, pages := range r.nodes {
		most = max(most, pages)
	}
	if most > (1<<63)/size {
		return fmt.Errorf("%w: %d pages", ErrFormat, most)
	}
	for i := range r.nodes {
		r.nodes[i] *= size
	}
	r.vma.Anon *= size
	r.vma.Dirty *= size
	r.vma.Nodes = r.nodes
	return nil
}

// NUMA adds up numa_maps: what the process has resident on each node, by node
// ID, in bytes, into nodes, which it extends as needed. Pages of hugetlbfs are
// counted, which no RSS counts.
func (p *Process) NUMA(nodes []uint64) ([]uint64, error) {
	nodes = nodes[:0]
	err := p.NumaMaps(func(v *NumaVMA) {
		for len(nodes) < len(v.Nodes) {
			nodes = append(nodes, 0)
		}
		for i, bytes := range v.Nodes {
			nodes[i] += bytes
		}
	})
	return nodes, err
}
