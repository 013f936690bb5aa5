package symbol

import (
	"sync"

	"github.com/memtrace/memtrace/analyzer/symbol/dwarf"
)

// module is what is known of one mapped file, read when first asked for.
type module struct {
	file  *mappedFile // retained
	users int         // lookups going on; guarded by the Resolver
	used  uint64      // when it was used last, in lookups; guarded by the Resolver

	mu     sync.Mutex
	loaded bool
	err    error // why there are no names at all
	img    *image
	debug  *image // separate debug file, or nil
	syms   symtab
	dwarf  dwarfReader
}

// function is what the symbol table alone knows of an address.
type function struct {
	name  string // as the file has it; "" where there is none
	start uint64
}

// load reads headers and symbol tables and looks for the debug file.
// It returns what went wrong the first time only.
func (m *module) load(finder debugFinder, path string, root int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded {
		return nil
	}
	m.loaded = true
	m.err = guard("read the symbols of "+path, func() error {
		img, err := openImage(files.retain(m.file))
		if err != nil {
			return err
		}
		m.img = img
		if !img.hasDWARF() {
			m.debug = finder.find(img, path, root)
		}
		m.syms.addSections(img)
		m.syms.addTables(img, img.executable)
		if m.debug != nil {
			m.syms.addTables(m.debug, img.executable)
		}
		m.syms.finish()
		return nil
	})
	return m.err
}

// function looks addr, an ELF virtual address, up in the symbol tables.
func (m *module) function(addr uint64) (f function) {
	if m.err != nil {
		return f
	}
	if err := guard("look up a symbol", func() error {
		f.name, f.start, _ = m.syms.lookup(addr)
		return nil
	}); err != nil {
		return function{}
	}
	return f
}

// source looks addr up in the DWARF of the module: innermost first, the last
// being the function that the code was compiled as. It may be empty.
func (m *module) source(addr uint64) ([]dwarf.Location, error) {
	if m.err != nil || m.img == nil {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dwarf.lookup(m.img, m.debug, addr)
}

// close lets go of all files. No lookup may be going on.
func (m *module) close() {
	m.img.close()
	m.debug.close()
	files.release(m.file)
}
