package tracer

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// cookies are where the kernel half finds what does not fit into a probe's
// cookie. In the first two arrays the first place stands for none.
type cookies struct {
	variables places[int64]              // distances of variables that hold a pool
	caches    places[probe.ThreadCache]  // where mallocs find their results
	marks     places[[3]probe.StaticArg] // where the arguments of USDT probes are
	files     numbers                    // of files with a free
}

// maxFiles is how many files are told apart by a number that fits into a cookie.
const maxFiles = 255

// numbers are given to files in the order of their first use, from 1 on.
type numbers struct {
	mu sync.Mutex
	of map[fileKey]uint64
}

// fileKey tells files apart.
type fileKey struct {
	device, inode uint64
}

// number is that of an open file; 0 where there are too many.
func (n *numbers) number(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := fileKey{st.Dev, st.Ino}
	if n.of[key] == 0 && len(n.of) < maxFiles {
		if n.of == nil {
			n.of = make(map[fileKey]uint64)
		}
		n.of[key] = uint64(len(n.of) + 1)
	}
	return n.of[key]
}

func newCookies() cookies {
	return cookies{variables: places[int64]{first: 1}, caches: places[probe.ThreadCache]{first: 1}}
}

// cookie packs what the programs must know of a probe in the file that path leads to; see
// bpf/headers/record.h.
func (t *Tracer) cookie(pid int, path string, p *probe.Probe) (uint64, error) {
	c := uint64(uint32(pid)) | uint64(p.Shape&15)<<32 | uint64(p.Shape>>4)<<55
	if p.Shape.IsMark() {
		place, err := t.markPlace(p.Static)
		return c | uint64(place)<<36, err
	}
	variable, err := t.variablePlace(p)
	for i, reg := range p.Args {
		c |= uint64(reg) << (36 + 4*i)
	}
	if p.MayForward != "" || p.Throws {
		c |= 1 << 48
	}
	if p.KeepsReturn {
		c |= 1 << 49 // SPDelta is 0
	}
	if p.OpenEnded {
		c |= 1 << 50
	}
	if p.KeepsFrame {
		c |= 1 << 51
	}
	if p.Shape == probe.Free {
		c |= t.cookies.files.number(path) << 56
	}
	if p.Shape == probe.PoolChange {
		c |= uint64(p.Change&15) << 44
	}
	return c | uint64(p.SPDelta/8&63)<<49 | uint64(variable)<<56, err
}

// variablePlace is that of the variable which a probe's program looks at, if any: 8 bits.
func (t *Tracer) variablePlace(p *probe.Probe) (at uint32, err error) {
	switch {
	case p.Cache != (probe.ThreadCache{}):
		value := bpf.MemtraceThreadCache{
			Slot: p.Cache.Slot, Table: p.Cache.Table, Fixed: p.Cache.Fixed, First: p.Cache.First, Limit: p.Cache.Limit,
			Layout: uint32(p.Cache.Layout), Stride: p.Cache.Stride, Head: p.Cache.Head, Budget: p.Cache.Budget,
		}
		at, err = t.cookies.caches.place(t.kernel.coll.Maps[bpf.MemtraceMapThreadCaches], p.Cache, value)
		if errors.Is(err, errNoPlace) {
			return 0, nil // nothing is predicted, which costs time alone
		}
	case p.Variable != 0:
		at, err = t.cookies.variables.place(t.kernel.coll.Maps[bpf.MemtraceMapPoolVariables], p.Variable, p.Variable)
		if errors.Is(err, errNoPlace) {
			err = errors.New("too many different programs have a variable that holds a pool: trace fewer at a time")
		}
	}
	if err != nil {
		err = fmt.Errorf("say where %s finds its variable: %w", p.Name, err)
	}
	return at, err
}

// markPlace is that of the arguments of a USDT probe.
func (t *Tracer) markPlace(args [3]probe.StaticArg) (uint32, error) {
	var value bpf.MemtraceMark
	for i, a := range args {
		to := &value.Args[i]
		to.Value, to.Base, to.Index = a.Value, a.Base, a.Index
		to.Kind, to.Size, to.IndexBy = uint8(a.Kind), a.Size, a.Scaled
		if a.Signed {
			to.IsSigned = 1
		}
	}
	at, err := t.cookies.marks.place(t.kernel.coll.Maps[bpf.MemtraceMapMarks], args, value)
	if errors.Is(err, errNoPlace) {
		err = errors.New("too many different USDT probes: trace fewer programs at a time")
	}
	if err != nil {
		err = fmt.Errorf("say where a USDT probe's arguments are: %w", err)
	}
	return at, err
}
