//go:build linux && !viewer

package goheap

import (
	"fmt"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// variables are the runtime's, by their addresses in the file.
type variables struct {
	buckets uint64 // runtime.mbuckets
	cycle   uint64 // runtime.mProfCycle
	rate    uint64 // runtime.MemProfileRate
	by      string // how they were found
}

// How variables were found.
const (
	bySymbols = "symbols"
	byCode    = "code"
)

// A module has what is needed of runtime.moduledata: addresses in the file.
type module struct {
	text, gofunc             uint64
	noptrdata, bss, noptrbss [2]uint64
}

// words of runtime.moduledata (runtime/symtab.go), the same from Go 1.20 to 1.26.
const (
	wordNames     = 1
	wordText      = 22
	wordNoptrdata = 24
	wordBss       = 28
	wordNoptrbss  = 30
	wordGofunc    = 40
	moduleWords   = 41
)

// maxModuleScan bounds how much data is searched for the moduledata, in bytes.
const maxModuleScan = 16 << 20

// findModule looks for the moduledata in a process's data: its first word leads to pclntab.
func (p *program) findModule(mem *pages) (m module, err error) {
	header := p.section(".gopclntab", ".data.rel.ro.gopclntab").Addr + p.bias
	names := header + (p.table.names - p.table.base)
	left := uint64(maxModuleScan)
	for _, name := range []string{".go.module", ".noptrdata", ".data"} {
		s := p.elf.Section(name)
		if s == nil {
			continue
		}
		size := min(s.Size, left)
		left -= size
		for at := s.Addr + p.bias; size >= moduleWords*8; at, size = at+8, size-8 {
			if first, ok := mem.u64(at); !ok || first != header {
				continue
			}
			if second, ok := mem.u64(at + 8*wordNames); ok && second == names {
				return p.readModule(mem, at)
			}
		}
	}
	return m, fmt.Errorf("%w: it has no table of its parts (moduledata)", ErrNotFound)
}

func (p *program) readModule(mem *pages, at uint64) (m module, err error) {
	var b [moduleWords * 8]byte
	if !mem.read(b[:], at) {
		return m, errTable
	}
	word := func(i int) uint64 { return le64(b[8*i:]) - p.bias }
	return module{
		text: word(wordText), gofunc: word(wordGofunc),
		noptrdata: [2]uint64{word(wordNoptrdata), word(wordNoptrdata + 1)},
		bss:       [2]uint64{word(wordBss), word(wordBss + 1)},
		noptrbss:  [2]uint64{word(wordNoptrbss), word(wordNoptrbss + 1)},
	}, nil
}

// locate finds the runtime's variables.
func (p *program) locate(m module) (variables, error) {
	if v, ok := p.locateBySymbols(); ok {
		return v, nil
	}
	return p.locateByCode(m)
}

func (p *program) locateBySymbols() (v variables, ok bool) {
	v.by = bySymbols
	for _, s := range debugfile.FindSymbols(p.elf, "runtime.mbuckets", "runtime.mProfCycle", "runtime.MemProfileRate") {
		switch s.Name {
		case "runtime.mbuckets":
			v.buckets = s.Value
		case "runtime.mProfCycle":
			v.cycle = s.Value
		case "runtime.MemProfileRate":
			v.rate = s.Value
		}
	}
	return v, v.buckets != 0 && v.cycle != 0 && v.rate != 0
}

// locateByCode finds them by the code of functions of the runtime, each of which reads one variable of its kind: of
// pointers, of numbers that are zero at first, of numbers that aren't.
func (p *program) locateByCode(m module) (v variables, err error) {
	const flush, post, next, cache = "runtime.mProf_FlushLocked", "runtime.mProf_PostSweep", "runtime.nextSample", "runtime.allocmcache"
	found := p.table.entriesOf(flush, post, next, cache)
	v.by = byCode
	if v.buckets, err = p.read1(found[flush], m.bss, 8, flush); err != nil {
		return v, err
	}
	if v.cycle, err = p.read1(found[post], m.noptrbss, 4, post); err != nil {
		return v, err
	}
	name := next
	if found[next] == [2]uint64{} { // it was inlined
		name = cache
	}
	v.rate, err = p.read1(found[name], m.noptrdata, 8, name)
	return v, err
}
