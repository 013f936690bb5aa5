package symbol

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/memtrace/memtrace/analyzer/demangle"
	"github.com/memtrace/memtrace/analyzer/symbol/dwarf"
	"github.com/memtrace/memtrace/tracer/debugfile"
)

// maxModules bounds the files whose symbols are held; the one unused for
// longest goes first.
const maxModules = 1024

// Options says where and how a Resolver finds names. The zero value is good.
type Options struct {
	// DebugDirs are the directories of separate debug files, tried below the
	// process's own root, then below ours. None means /usr/lib/debug.
	DebugDirs []string
	// Names is how C++ and Rust names are written.
	Names Names
	// NoDWARF leaves out source lines and inlined frames.
	NoDWARF bool
	// Cache is the directory where names are kept from one run to the next,
	// such as DefaultCacheDir; "" means none. Where it can't be used safely
	// there is a warning. Names are written as the Resolver is closed.
	Cache string
	// Debuginfod are the servers to ask for debug files that are not on this
	// machine, such as DebuginfodURLs. None are asked by default: it tells
	// them which programs run here.
	Debuginfod []string
}

// Resolver turns addresses into Frames. It may be used from several
// goroutines.
type Resolver struct {
	options  Options
	loader   loader
	warnings warnings
	hurried  atomic.Bool // see Hurry

	mu      sync.Mutex
	lookups uint64
	modules map[moduleKey]*module
	held    int64 // by all of them, in bytes; see maxHeld
	names   generations[cacheKey, string]
	frames  generations[cacheKey, []Frame]
	texts   generations[string, string] // demangled names by mangled ones

	ownersNames map[uint32]*demangle.Budget // by user ID
}

// NewResolver makes a Resolver that knows nothing yet.
func NewResolver(o Options) *Resolver {
	if len(o.DebugDirs) == 0 {
		o.DebugDirs = debugfile.Dirs
	}
	r := &Resolver{options: o, modules: map[moduleKey]*module{}, ownersNames: map[uint32]*demangle.Budget{}}
	r.forget()
	r.texts.size = func(s string) int { return 2 * len(s) } // with the mangled name
	finder := debugFinder{dirs: o.DebugDirs, remote: newDebuginfod(o.Debuginfod, &r.warnings)}
	r.loader = loader{finder: finder, names: o.Names, noDWARF: o.NoDWARF}
	if o.Cache != "" && !o.NoDWARF {
		var err error
		if r.loader.store, err = openStore(o.Cache, answersSuffix); err != nil {
			r.warnings.add(o.Cache, err.Error()+"; names will take as long the next time")
		}
	}
	return r
}

// Interrupt is to be called at a signal. If a server is being waited for, that ends, and none is asked any more. One
// that comes at another time does nothing: that is how most traces end, and their stacks are named only then.
func (r *Resolver) Interrupt() { r.loader.finder.remote.interrupt() }

// Hurry has what is not named by now stay without a name, and servers no longer waited for: somebody wants the rest
// at once.
func (r *Resolver) Hurry() {
	r.hurried.Store(true)
	r.loader.finder.remote.stop()
}

// Close writes what later runs can use and lets go of all files. The Resolver
// must not be used afterwards, but for its Warnings.
func (r *Resolver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.modules {
		r.closeModule(m)
	}
	r.modules = nil
	r.loader.store.close()
	r.loader.store = nil
}

func (r *Resolver) closeModule(m *module) {
	if err := m.close(); err != nil {
		r.warnings.add(r.options.Cache, err.Error())
	}
}

// Warnings says what could not be read, once a file, in plain words.
func (r *Resolver) Warnings() []string { return r.warnings.list() }

// Frames names a stack, innermost first: for each address the frames inlined
// there, then the function itself. All addresses but the first are return
// addresses, which are looked up one byte lower, inside the call; so is the
// first where firstIsReturn is set. There is at least one Frame an address.
// Stacks share Frames, which must not be changed. They are as of now; see FramesAt.
func (r *Resolver) Frames(s *Space, addrs []uint64, firstIsReturn bool) []*Frame {
	return r.FramesAt(s, addrs, firstIsReturn, Now)
}

// Now is later than any time.
const Now = ^uint64(0)

// FramesAt is Frames of a stack that was taken at a time, by the clock of Refresh.
func (r *Resolver) FramesAt(s *Space, addrs []uint64, firstIsReturn bool, at uint64) []*Frame {
	frames := make([]*Frame, 0, len(addrs)+len(addrs)/2)
	for i, addr := range addrs {
		if (i > 0 || firstIsReturn) && addr > 0 {
			addr--
		}
		frames = r.appendFrames(frames, s, addr, at)
	}
	return frames
}

// Function names the function at addr by the symbol table alone: it is cheap
// enough for every event, and knows no inlined functions. addr is looked up as
// it is.
func (r *Resolver) Function(s *Space, addr uint64) string {
	p, ok := r.place(s, addr, Now)
	defer r.leave(p.module)
	if !ok {
		return p.frame().Function
	}
	r.mu.Lock()
	name, ok := r.names.get(p.key())
	r.mu.Unlock()
	if ok {
		return name
	}
	if r.hurries() {
		return p.frame().Function
	}
	name = r.symbolFrame(p).Function
	r.mu.Lock()
	r.names.put(p.key(), name)
	r.mu.Unlock()
	return name
}

// appendFrames appends the frames of one address.
func (r *Resolver) appendFrames(frames []*Frame, s *Space, addr, at uint64) []*Frame {
	p, ok := r.place(s, addr, at)
	defer r.leave(p.module)
	if !ok {
		f := p.frame()
		return append(frames, &f)
	}
	r.mu.Lock()
	found, ok := r.frames.get(p.key())
	r.mu.Unlock()
	if !ok && r.hurries() {
		f := p.frame()
		f.BuildID = p.module.img.buildID
		return append(frames, &f)
	}
	if !ok {
		found = r.resolve(p)
		r.mu.Lock()
		r.frames.put(p.key(), found)
		r.mu.Unlock()
	}
	for i := range found {
		f := &found[i]
		if f.Module != p.name { // the same file may have another path in another process
			own := *f
			own.Module, f = p.name, &own
		}
		frames = append(frames, f)
	}
	return frames
}

// hurries tells whether what has no name yet is to stay without, and says so once.
func (r *Resolver) hurries() bool {
	if !r.hurried.Load() {
		return false
	}
	r.warnings.add("hurried",
		"a signal came while functions were being named: those that had no name by then have addresses alone")
	return true
}

// place is where an address lies.
type place struct {
	module *module // in use until leave; nil outside any readable file
	name   string  // of the module
	addr   uint64  // ELF virtual address in the module, or as it was
	jit    string  // what a JIT compiler says is there
}

// frame is a Frame that knows no name.
func (p place) frame() Frame {
	f := Frame{Function: hexName(p.addr), Module: p.name, Offset: p.addr}
	if strings.HasPrefix(p.name, "[") {
		f.Function = p.name
	}
	if p.jit != "" {
		f.Function = printable(p.jit)
	}
	return f
}

func (p place) key() cacheKey { return cacheKey{p.module, p.addr} }

// place finds the module of addr; ok is false where nothing more can be known.
func (r *Resolver) place(s *Space, addr, at uint64) (p place, ok bool) {
	m, ok := s.find(addr, at)
	if !ok {
		return place{addr: addr}, false
	}
	p = place{name: m.moduleName(), addr: addr - m.start + m.offset}
	if m.mayBeJIT() {
		p.jit = s.jit.name(addr)
	}
	if m.lacks != nil {
		r.warnings.add(m.path, fmt.Sprintf("%v; its functions have no names", m.lacks))
	}
	if m.file == nil || p.jit != "" {
		return p, false
	}
	defer files.release(m.file)
	p.module = r.enter(m.file, s.view())
	l := r.loader
	l.headers = r.hurried.Load()
	if err := p.module.load(l, m.path); err != nil {
		r.warn(m, err)
	}
	if p.module.img == nil {
		return p, false
	}
	vaddr, ok := p.module.img.virtualAddress(p.addr)
	if ok {
		p.addr = vaddr
	}
	return p, ok
}

// warn tells of a mapped file that can't be read as it should be. What a program wrote into
// memory as a file of its own, to run it, need be no ELF file.
func (r *Resolver) warn(m mapping, err error) {
	if !errors.Is(err, errNotELF) || !m.mayBeJIT() {
		r.warnings.add(m.path, err.Error())
	}
}

// moduleKey is a file and where its debug files are: what one root has says nothing
// of the processes of another, though they map the same file.
type moduleKey struct {
	file *mappedFile
	view viewKey
}

// enter returns the module of f, which can't go away until leave.
func (r *Resolver) enter(f *mappedFile, v view) *module {
	key := moduleKey{f, v.key}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.modules[key]
	if m == nil {
		if len(r.modules) >= maxModules {
			r.evict()
		}
		m = &module{file: files.retain(f), view: v.keep()}
		r.modules[key] = m
	}
	r.lookups++
	m.used = r.lookups
	m.users++
	return m
}

func (r *Resolver) leave(m *module) {
	if m == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m.users--
	r.charge(m)
	if r.held > maxHeld {
		// Down to half, so that this is not done at every lookup.
		for r.held > maxHeld/2 && r.evict() {
		}
	}
}

// charge brings the memory that counts for m up to date.
func (r *Resolver) charge(m *module) {
	held := m.held.Load() + m.heldDWARF.Load()
	r.held += held - m.charged
	m.charged = held
}

// evict closes the module unused for longest; false means that all are in use.
func (r *Resolver) evict() bool {
	var oldest *module
	for _, m := range r.modules {
		if m.users == 0 && (oldest == nil || m.used < oldest.used) {
			oldest = m
		}
	}
	if oldest == nil {
		return false
	}
	delete(r.modules, moduleKey{oldest.file, oldest.view.key})
	r.held -= oldest.charged
	r.closeModule(oldest)
	// The caches hold module pointers.
	r.forget()
	return true
}

// forget empties the caches of addresses.
func (r *Resolver) forget() {
	r.names = generations[cacheKey, string]{size: func(s string) int { return len(s) }}
	r.frames = generations[cacheKey, []Frame]{size: func(frames []Frame) (n int) {
		for _, f := range frames {
			n += len(f.Function) + len(f.Mangled) + len(f.File)
		}
		return n
	}}
}

// resolve finds the frames at p, in what earlier runs left or in the files.
func (r *Resolver) resolve(p place) []Frame {
	found := p.module.recall(p.addr)
	for i := range found {
		found[i].Module, found[i].BuildID, found[i].Offset = p.name, p.module.img.buildID, p.addr
	}
	if found == nil {
		found = r.read(p)
		if !p.module.file.mangled.Load() {
			p.module.remember(p.addr, found)
		}
	}
	return found
}

// read asks DWARF, then the symbol table, for the frames at p.
func (r *Resolver) read(p place) []Frame {
	physical := r.symbolFrame(p)
	if r.options.NoDWARF {
		return []Frame{physical}
	}
	locations, err := p.module.source(p.addr)
	switch {
	case errors.Is(err, dwarf.ErrWork): // beside what was said before
		r.warnings.add("work of "+p.name, err.Error())
	case err != nil:
		r.warnings.add("DWARF of "+p.name, err.Error())
	}
	if len(locations) == 0 {
		return []Frame{physical}
	}
	frames := make([]Frame, 0, len(locations))
	for i, l := range locations {
		f := physical
		f.File, f.Line = printable(l.File), l.Line
		if f.Inlined = i < len(locations)-1; f.Inlined || preferDWARF(physical, l) {
			f.Function, f.Mangled = r.readable(p.module.file, l.Name, "[inlined]")
		}
		frames = append(frames, f)
	}
	return slices.Clip(frames)
}

// preferDWARF tells whether a function goes by its name in DWARF, which has no
// ".cold" or ".constprop.0" in it. It goes by its symbol where that says more:
// a mangled name against a plain one, which lacks namespace and parameters, or
// an exported name against an internal alias such as __libc_malloc.
func preferDWARF(symbol Frame, l dwarf.Location) bool {
	switch {
	case l.Name == "":
		return false
	case symbol.Mangled != "":
		return l.Linkage
	case strings.HasPrefix(symbol.Function, "_"), strings.HasPrefix(symbol.Function, "0x"):
		return true
	}
	return !strings.HasPrefix(l.Name, "__")
}

// symbolFrame is the Frame at p as the symbol table knows it.
func (r *Resolver) symbolFrame(p place) Frame {
	f := p.frame()
	f.BuildID = p.module.img.buildID
	symbol, err := p.module.function(p.addr)
	if err != nil {
		r.warnings.add("symbols of "+p.name, err.Error())
	}
	f.Function, f.Mangled = r.readable(p.module.file, symbol.name, f.Function)
	return f
}

// readable demangles a name of a file; fallback is for where there is none.
func (r *Resolver) readable(f *mappedFile, name, fallback string) (text, mangled string) {
	if name == "" {
		return fallback, ""
	}
	if text = r.demangled(f, name); text != name {
		mangled = printable(name)
	}
	return printable(text), mangled
}
