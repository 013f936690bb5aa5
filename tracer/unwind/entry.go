package unwind

import (
	"errors"
	"fmt"
	"strings"
)

// section is a section of call frame information.
type section struct {
	data    []byte
	address uint64 // of its first byte
	hdr     uint64 // address of .eh_frame_hdr
	debug   bool   // .debug_frame, which differs in little
	machine *machine

	cies     map[uint64]*cie
	leads    map[lead]*cie // by what they say: .debug_frame has one a source file, all alike
	cieBytes int           // that were read; CIEs that don't overlap have no more than the section
}

// cie is what several functions have in common.
type cie struct {
	codeAlign uint64
	dataAlign int64
	encoding  byte // of addresses
	augmented bool // its FDEs have augmentation data
	signal    bool
	elsewhere bool // returns are by another register, as in glibc's vfork for AArch64: no rule of ours
	initial   state
	err       error // its functions can't be unwound
}

// fde is one function's entry.
type fde struct {
	cie        *cie
	start, end uint64
	code       []byte
}

// entries counts those that may be functions.
func (s *section) entries() (n int) {
	for c := (cursor{data: s.data}); !c.done(); {
		body, _ := c.body()
		if len(body) == 0 && !s.debug {
			break
		}
		if len(body) > 0 {
			n++
		}
	}
	return n
}

// each calls visit for every function until it returns false. Entries that are
// malformed or of an unknown kind are counted and left out.
func (s *section) each(visit func(*fde) bool) (bad int) {
	var f fde
	s.cies, s.leads = make(map[uint64]*cie), make(map[lead]*cie)
	c := cursor{data: s.data}
	for !c.done() {
		body, wide := c.body()
		if c.err != nil {
			return bad + 1
		}
		if len(body) == 0 {
			if s.debug {
				continue
			}
			break // the terminator
		}
		e := cursor{data: s.data[:c.at], at: c.at - len(body)}
		found, err := s.entry(&e, wide, &f)
		if err != nil {
			bad++
		} else if found && !f.cie.elsewhere && !visit(&f) {
			break
		}
	}
	return bad
}

// body reads an entry's length and returns what follows it.
func (c *cursor) body() (data []byte, wide bool) {
	n := c.u32()
	if n == 0xffffffff {
		wide = true
		n = c.u64()
	}
	if n > uint64(len(c.data)) {
		c.fail(errShort)
		return nil, wide
	}
	return c.take(int(n)), wide
}

// entry reads an FDE into f; false means that it is a CIE.
func (s *section) entry(e *cursor, wide bool, f *fde) (bool, error) {
	at := uint64(e.at)
	id := e.u32()
	if wide && s.debug {
		e.at -= 4
		id = e.u64()
	}
	if e.err != nil {
		return false, e.err
	}
	if s.isCIE(id, wide) {
		return false, nil
	}
	where := id
	if !s.debug {
		where = at - id // wraps for nonsense, and is found to be no CIE
	}
	info := s.cie(where)
	if info.err != nil {
		return false, info.err
	}
	*f = fde{cie: info}
	f.start = e.pointer(info.encoding, s.address, s.hdr)
	f.end = f.start + e.pointer(info.encoding&0x0f, 0, 0)
	if info.augmented {
		e.take(int(min(e.uleb(), uint64(len(e.data)))))
	}
	if e.err != nil {
		return false, e.err
	}
	if f.end <= f.start {
		return false, fmt.Errorf("function at %#x has no bytes", f.start)
	}
	f.code = e.data[e.at:]
	return true, nil
}

func (s *section) isCIE(id uint64, wide bool) bool {
	if !s.debug {
		return id == 0
	}
	return wide && id == ^uint64(0) || !wide && id == 0xffffffff
}

// lead is what a CIE says.
type lead struct {
	text string
	wide bool
}

// noCIE is what functions have whose CIE can't be read, or is beyond the limits.
var noCIE = &cie{err: errors.New("no CIE, or one too many")}

// cie reads the CIE at offset at, once.
func (s *section) cie(at uint64) *cie {
	if info := s.cies[at]; info != nil {
		return info
	}
	if len(s.cies) == maxCIEs || at >= uint64(len(s.data)) {
		return noCIE
	}
	c := cursor{data: s.data, at: int(at)}
	body, wide := c.body()
	if s.cieBytes += len(body); c.err != nil || s.cieBytes > len(s.data) {
		return noCIE
	}
	info := s.lead(&cursor{data: s.data[:c.at], at: c.at - len(body)}, wide)
	s.cies[at] = info
	return info
}

// lead reads a CIE once for all that say the same: where one lies makes no difference.
func (s *section) lead(e *cursor, wide bool) *cie {
	text := e.data[e.at:]
	if info := s.leads[lead{string(text), wide}]; info != nil {
		return info
	}
	if len(s.leads) == maxLeads {
		return noCIE
	}
	info := &cie{}
	if err := s.readCIE(info, e, wide); err != nil {
		info = noCIE
	}
	s.leads[lead{string(text), wide}] = info
	return info
}

func (s *section) readCIE(info *cie, e *cursor, wide bool) error {
	at := e.at
	id := e.u32()
	if wide && s.debug {
		e.at -= 4
		id = e.u64()
	}
	if !s.isCIE(id, wide) {
		return fmt.Errorf("no CIE at offset %#x", at)
	}
	version := e.u8()
	if version != 1 && version != 3 && version != 4 {
		return fmt.Errorf("CIE at offset %#x has unknown version %d", at, version)
	}
	augmentation := e.text()
	if version == 4 {
		if size, segment := e.u8(), e.u8(); size != 8 || segment != 0 {
			return fmt.Errorf("CIE at offset %#x has addresses of %d bytes in segments of %d", at, size, segment)
		}
	}
	info.codeAlign, info.dataAlign = e.uleb(), e.sleb()
	ra := e.uleb()
	if version == 1 && ra >= 0x80 {
		return fmt.Errorf("CIE at offset %#x has unknown return address register %d", at, ra)
	}
	info.elsewhere = ra != s.machine.ra
	if err := info.augment(e, augmentation); err != nil {
		return err
	}
	info.initial = newState(s.machine)
	p := program{section: s, cie: info, state: &info.initial}
	return p.run(e.data[e.at:])
}

// augment reads what the letters of the augmentation announce.
func (info *cie) augment(e *cursor, letters string) error {
	info.encoding = peAbs
	if letters == "" || letters == "eh" {
		if letters == "eh" { // gcc 2
			e.u64()
		}
		return e.err
	}
	if !strings.HasPrefix(letters, "z") {
		return fmt.Errorf("unknown augmentation %q", letters)
	}
	info.augmented = true
	size := e.uleb()
	if size > uint64(len(e.data)-e.at) {
		return errShort
	}
	end := e.at + int(size)
	for _, letter := range letters[1:] {
		switch letter {
		case 'R':
			info.encoding = byte(e.u8())
		case 'P':
			e.pointer(byte(e.u8())&0x0f, 0, 0)
		case 'L':
			e.u8()
		case 'S':
			info.signal = true
		case 'B', 'G': // AArch64: signed return addresses, tagged stacks
		default: // the rest of the data can't be told apart
			return fmt.Errorf("unknown augmentation %q", letters)
		}
	}
	if e.err == nil {
		e.at = end
	}
	return e.err
}
