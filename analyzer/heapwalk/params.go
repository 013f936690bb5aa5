package heapwalk

import "github.com/memtrace/memtrace/procfs"

// params are what is of interest in glibc's struct malloc_par, "mp_":
//
//	…
//	int n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold; [4 bytes]
//	size_t mmapped_mem, max_mmapped_mem;
//	char *sbrk_base;
//	size_t tcache_bins, tcache_max_bytes, tcache_count;
type params struct {
	addr     uint64 // of sbrk_base
	pad      uint64
	mmaps    uint64 // blocks with a mapping of their own
	mapped   uint64 // bytes of those mappings
	sbrkBase uint64 // first address that sbrk gave; 0: none yet
}

// defaultMaxMmaps is the initial n_mmaps_max.
const defaultMaxMmaps = 65536

// findParams looks for it in the data where the main arena is; nil where there
// is none, or more than one place that may be it.
func (m *memory) findParams(a *allocator) *params {
	const maxWords = 8 << 20
	if a.data.end-a.data.start > 8*maxWords {
		return nil
	}
	words, err := m.allWords(a.data)
	if err != nil {
		return nil
	}
	var found *params
	for i := 9; i+3 < len(words); i++ {
		for _, pad := range []uint64{0, 4} {
			p := paramsAt(words, i, pad)
			if p == nil || p.sbrkBase != 0 && !m.inHeap(p.sbrkBase) {
				continue
			}
			if found != nil {
				return nil
			}
			p.addr = a.data.start + 8*uint64(i)
			found = p
		}
	}
	return found
}

// allWords reads a range; pages that are not there read as zeros.
func (m *memory) allWords(s span) ([]uint64, error) {
	v, err := m.view(s)
	if err != nil {
		return nil, err
	}
	words := make([]uint64, 0, (s.end-s.start)/8)
	for at := s.start; at < s.end; {
		b, err := v.at(at, min(s.end-at, viewBytes/2))
		if err != nil {
			return nil, err
		}
		for i := range len(b) / 8 {
			words = append(words, word(b, i))
		}
		at += uint64(len(b))
	}
	return words, nil
}

// paramsAt takes word i for sbrk_base.
func paramsAt(w []uint64, i int, pad uint64) *params {
	p := &params{pad: pad, sbrkBase: w[i], mapped: w[i-2]}
	var ints [4]uint32 // n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold
	for k := range ints {
		at := 8*uint64(i) - 16 - pad - 16 + 4*uint64(k)
		ints[k] = uint32(w[at/8] >> (8 * (at % 8)))
	}
	p.mmaps = uint64(ints[0])
	switch {
	case p.sbrkBase == 0 && ints[1] != defaultMaxMmaps,
		ints[0] > ints[2], ints[1] == 0 && ints[0] != 0, ints[3] > 1,
		(p.mmaps == 0) != (p.mapped == 0), p.mapped%pageBytes != 0, p.mapped > w[i-1], p.mapped < p.mmaps*pageBytes,
		w[i-1]%pageBytes != 0, (w[i-1] == 0) != (ints[2] == 0),
		w[i+1] == 0 || w[i+1] > 76, w[i+2] == 0 || w[i+2] > 1<<24, w[i+3] > 1<<16:
		return nil
	}
	return p
}

// inHeap reports whether an address may be the first that sbrk gave.
func (m *memory) inHeap(addr uint64) bool {
	v := m.mappingOf(addr)
	return v != nil && v.kind == procfs.KindHeap
}

// reread reads the counts again.
func (p *params) reread(m *memory) {
	var w [13]uint64
	if m.words(p.addr-8*9, w[:]) != nil {
		return
	}
	if again := paramsAt(w[:], 9, p.pad); again != nil {
		p.mmaps, p.mapped = again.mmaps, again.mapped
	}
}
