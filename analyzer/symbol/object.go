package symbol

import (
	"debug/elf"
	"errors"
	"sort"
)

// Object names the data object that covers addr, as its file has it, by symbol
// tables alone: "_ZTV3Foo" for the virtual table of Foo. "" where none is
// known. Only memory behind a module's code is looked up, which is where
// linkers put virtual tables and other constants with addresses in them.
func (r *Resolver) Object(s *Space, addr uint64) string {
	m, ok := s.before(addr)
	if !ok {
		return ""
	}
	defer files.release(m.file)
	mod := r.enter(m.file, s.view())
	defer r.leave(mod)
	if err := mod.load(r.loader, m.path); err != nil {
		r.warn(m, err)
	}
	if mod.img == nil {
		return ""
	}
	code, ok := mod.img.virtualAddress(m.offset)
	if !ok {
		return ""
	}
	name, err := mod.object(addr - m.start + code)
	if err != nil {
		r.warnings.add("symbols of "+m.path, err.Error())
	}
	return name
}

// before returns the last mapping of a file's code that begins at addr or
// before, with its file retained for the caller, who releases it.
func (s *Space) before(addr uint64) (mapping, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := sort.Search(len(s.current), func(i int) bool { return s.current[i].start > addr })
	for i--; i >= 0; i-- {
		if m := s.current[i]; m.file != nil {
			files.retain(m.file)
			return m, true
		}
	}
	return mapping{}, false
}

// object looks addr, an ELF virtual address, up among the data objects.
func (m *module) object(addr uint64) (name string, err error) {
	if m.err != nil || m.img == nil || !m.img.loads(addr) {
		return "", nil
	}
	m.objects.Do(func() {
		err = guard("read the symbols of "+m.file.path, func() error {
			t := symtab{objects: true}
			err := t.addTables(m.img, m.img.loads)
			if m.debug != nil {
				err = errors.Join(err, t.addTables(m.debug, m.img.loads))
			}
			t.finish()
			m.data = t
			m.held.Add(t.cost())
			return err
		})
	})
	return name, errors.Join(err, guard("look up a symbol of "+m.file.path, func() error {
		name = m.data.objectAt(addr)
		return nil
	}))
}

// objectAt returns the name of the object that covers addr.
func (t *symtab) objectAt(addr uint64) string {
	i := sort.Search(len(t.symbols), func(i int) bool { return t.symbols[i].value > addr })
	if e, ok := t.covering(i, addr); ok {
		return trimVersion(t.name(e))
	}
	return ""
}

// loads tells whether a segment covers the virtual address.
func (img *image) loads(vaddr uint64) bool {
	for _, p := range img.elf.Progs {
		if p.Type == elf.PT_LOAD && vaddr >= p.Vaddr && vaddr-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}
