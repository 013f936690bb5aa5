package unwind

import "debug/elf"

// Ranges lists the code that the entries of an .eh_frame are about, in their order. Address is where the section is
// linked, hdr where .eh_frame_hdr is; 0: nowhere. Entries that are malformed, or of an unknown kind, are left out.
// Where one can't be stepped over, what follows can't be trusted, nor what led there: none.
func Ranges(m elf.Machine, data []byte, address, hdr uint64) (out []Range) {
	s := &section{data: data, address: address, hdr: hdr, machine: machines[m]}
	if s.machine == nil || !s.steps() {
		return nil
	}
	s.each(func(f *fde) bool {
		out = append(out, Range{f.start, f.end})
		return true
	})
	return out
}

// steps says whether the lengths of all entries lead to the section's end, or to its terminator.
func (s *section) steps() bool {
	c := cursor{data: s.data}
	for !c.done() {
		if body, _ := c.body(); len(body) == 0 {
			break
		}
	}
	return c.err == nil
}
