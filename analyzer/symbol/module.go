package symbol

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/memtrace/memtrace/analyzer/symbol/dwarf"
)

// module is what is known of one mapped file, read when first asked for.
type module struct {
	file  *mappedFile // retained
	view  view        // where its debug files are; with a root of its own
	users int         // lookups going on; guarded by the Resolver
	used  uint64      // when it was used last, in lookups; guarded by the Resolver

	mu     sync.Mutex
	loaded bool
	err    error // why there are no names at all
	img    *image
	debug  *image // separate debug file, or nil
	mini   *image // from .gnu_debugdata, or nil; guarded by symbols
	dwarf  dwarfReader
	known  *known

	symbols sync.Once
	syms    symtab
	objects sync.Once
	data    symtab

	held      atomic.Int64 // memory, in bytes, but for what DWARF takes
	heldDWARF atomic.Int64
	charged   int64 // what of Resolver.held is its; guarded by the Resolver
}

// function is what the symbol table alone knows of an address.
type function struct {
	name  string // as the file has it; "" where there is none
	start uint64
}

// loader says how modules are loaded.
type loader struct {
	finder  debugFinder
	store   *store
	names   Names
	noDWARF bool
	headers bool // load these alone: nothing is to be named any more
}

// load reads the headers and looks for the debug file and for what earlier
// runs left. It returns what went wrong the first time only.
func (m *module) load(l loader, path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded {
		return nil
	}
	m.loaded = true
	var missing, lacks error
	m.err = guard("read the headers of "+path, func() error {
		img, err := openImage(files.retain(m.file))
		if err != nil {
			return err
		}
		m.img = img
		if l.headers {
			m.held.Add(img.cost())
			return nil
		}
		if !img.hasDWARF() {
			m.debug, missing = l.finder.find(img, path, m.view)
		}
		if !l.noDWARF {
			lacks = m.dwarf.find(l, img, m.debug, path, m.view)
		}
		m.known = openKnown(l.store, m, l.names)
		m.held.Add(img.cost() + m.debug.cost())
		return nil
	})
	return errors.Join(m.err, missing, lacks)
}

// readSymbols reads the symbol tables, which an answer of an earlier run does
// without.
func (m *module) readSymbols() error {
	return guard("read the symbols of "+m.file.path, func() error {
		var t symtab
		t.addSections(m.img)
		err := t.addTables(m.img, m.img.executable)
		if m.debug != nil {
			err = errors.Join(err, t.addTables(m.debug, m.img.executable))
		}
		err = errors.Join(err, m.addMini(&t))
		t.finish()
		m.syms = t
		m.held.Add(t.cost() + m.mini.cost())
		return err
	})
}

// addMini adds the symbols of .gnu_debugdata, where there is no .symtab.
func (m *module) addMini(t *symtab) error {
	if m.img.hasSymtab() || m.debug != nil && m.debug.hasSymtab() {
		return nil
	}
	mini, err := openMini(m.img)
	if mini != nil {
		m.mini = mini
		err = errors.Join(err, t.addTables(mini, m.img.executable))
	}
	return err
}

// function looks addr, an ELF virtual address, up in the symbol tables.
func (m *module) function(addr uint64) (f function, err error) {
	if m.err != nil || m.img == nil {
		return f, nil
	}
	m.symbols.Do(func() { err = m.readSymbols() })
	err = errors.Join(err, guard("look up a symbol of "+m.file.path, func() error {
		f.name, f.start, _ = m.syms.lookup(addr)
		return nil
	}))
	if err != nil {
		m.mu.Lock()
		m.known.spoil()
		m.mu.Unlock()
	}
	return f, err
}

// source looks addr up in the DWARF of the module: innermost first, the last
// being the function that the code was compiled as. It may be empty.
func (m *module) source(addr uint64) ([]dwarf.Location, error) {
	if m.err != nil || m.img == nil {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.dwarf.lookup(addr)
	m.heldDWARF.Store(m.dwarf.cost())
	if err != nil || m.dwarf.split.foreign() { // of which files answers came is not part of their key
		m.known.spoil()
	}
	return found, err
}

// recall returns the frames of addr if an earlier run left them.
func (m *module) recall(addr uint64) []Frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.find(addr)
}

// remember leaves the frames of addr for later runs.
func (m *module) remember(addr uint64, frames []Frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.add(addr, frames)
}

// close lets go of all files. No lookup may be going on. The error says why
// later runs will know no more than before.
func (m *module) close() error {
	err := m.known.close()
	m.dwarf.close()
	m.img.close()
	m.debug.close()
	m.mini.close()
	m.view.close()
	files.release(m.file)
	return err
}
