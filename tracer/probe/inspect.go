package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
)

// Inspect finds the allocation functions of one ELF file and where to probe
// each. A file without an allocator gives an Object without Probes and no
// error. Errors: ErrNotELF, Err32Bit, ErrNotSupportedMachine (neither amd64
// nor arm64), or what is malformed.
func Inspect(r io.ReaderAt) (o Object, err error) { return inspectAt(r, locator{}, Choice{}) }

// inspectAt is Inspect, with a locator of the file's separate debug file, the
// functions that the user asks for, and how returns are to be seen.
func inspectAt(r io.ReaderAt, at locator, choice Choice) (o Object, err error) {
	defer func() {
		// The file is hostile until proven otherwise, and two of the
		// decoders are not ours.
		if p := recover(); p != nil {
			o, err = Object{}, fmt.Errorf("inspect ELF file: malformed: %v", p)
		}
	}()
	im, err := openImage(r)
	if err != nil {
		return Object{}, err
	}
	im.asked, im.replacesReturns = askedIn(at.path, choice.Functions), choice.ReplaceReturns
	marks := im.readMarks()
	id, err := im.identity()
	if err != nil {
		return Object{}, err
	}
	o = Object{Machine: im.file.Machine, Static: id.static, Soname: id.soname, BuildID: im.buildID(), Go: im.builtByGo(), Family: FamilyUnknown}
	im.readTracing(&o)
	syms, err := im.allocator(id, at)
	if err != nil {
		return Object{}, err
	}
	syms.setFamilies(id.soname)
	o.needsCLibrary = id.needsCLibrary
	o.Source, o.Left = syms.source, im.left
	o.Marks = marks.others
	o.stripped, o.allocatesNothing = id.static && syms.count == 0, syms.noAllocator()
	if isLoader(id.soname) && syms.defined[libcMark] == 0 {
		syms.found = nil
	}
	if len(syms.found) == 0 && !im.asked.any() && len(marks.asked) == 0 {
		o.Skipped = append(o.Skipped, marks.skipped...)
		return o, nil
	}
	o.Family = syms.ownFamily(id.soname)
	if err := im.relocations(); err != nil {
		return Object{}, err
	}
	known := im.candidates(&o, syms.found)
	im.dropForwarders(&o, known)
	im.addUsers(&o, known, &syms)
	o.Others = im.otherEntries(&o, known, syms.others)
	if err := im.placeAll(&o, known, syms.variables); err != nil {
		return Object{}, err
	}
	im.addMarks(&o, marks, syms.variables)
	return o, nil
}

// isLoader recognises the dynamic loader, whose malloc serves but itself.
// musl's loader is its C library too, which the caller checks.
func isLoader(soname string) bool {
	return strings.HasPrefix(soname, "ld-") || strings.HasPrefix(soname, "ld.") || strings.HasPrefix(soname, "ld64.")
}

// candidates picks the functions that allocate in this object: one for each
// address, under its most telling name.
func (im *image) candidates(o *Object, found []symbol) entries {
	known := entries{}
	operatorNew := slices.ContainsFunc(found, func(s symbol) bool { return s.family.bringsOperatorNew() })
	for _, s := range found {
		switch {
		case s.group == groupCXX && !operatorNew:
			continue // calls malloc
		case s.group == groupX && s.family != Jemalloc:
			continue
		case s.ifunc:
			o.skip(s.name, "an indirect function: its code is chosen at run time")
			continue
		case im.segment(s.addr) == nil:
			o.skip(s.name, "defined outside the code")
			continue
		}
		old, ok := known[s.addr]
		s.throws, old.throws = s.throws || old.throws, s.throws || old.throws
		if !ok || s.rank < old.rank {
			old = s
		}
		known[s.addr] = old
	}
	return known
}

func (o *Object) skip(name, reason string) {
	o.Skipped = append(o.Skipped, Skip{Name: name, Reason: reason})
}

// leave is skip, of a function whose returns can't be seen.
func (o *Object) leave(name, reason string) {
	o.skip(name, reason)
	o.Unseen = append(o.Unseen, Skip{name, reason})
}

// dropForwarders removes the functions whose every call arrives at another
// probed function too.
func (im *image) dropForwarders(o *Object, known entries) {
	all := make(entries, len(known))
	for addr, s := range known {
		all[addr] = s
	}
	for addr, s := range all {
		how, to := im.forwards(s, all)
		switch how {
		case forwardsAlways:
			delete(known, addr)
			o.skip(s.name, "passes on to "+to.name)
		case forwardsSometimes:
			s.mayForward = to.name
			known[addr] = s
		}
	}
	sort.Slice(o.Skipped, func(i, j int) bool { return o.Skipped[i].Name < o.Skipped[j].Name })
}

// placeAll chooses the instruction for each function.
func (im *image) placeAll(o *Object, known entries, variables map[string]uint64) error {
	targets, bodies, err := im.branchTargets(known)
	if err != nil {
		return err
	}
	for addr, s := range known {
		where, ok := im.placeAligned(s, bodies[addr], targets)
		if !ok {
			o.skip(s.name, "its code cannot be read")
			continue
		}
		entry, _ := im.fileOffset(addr)
		offset, ok := im.fileOffset(where.addr)
		if !ok {
			o.skip(s.name, "its code cannot be read")
			continue
		}
		p := Probe{
			Name: s.name, Family: s.family, Shape: s.shape, Entry: entry, Offset: offset, Args: where.args,
			SPDelta: where.grown, Cost: where.cost, Instruction: where.instruction, MayForward: s.mayForward,
			Change: s.pool.change, Variable: s.pool.distance(variables, where.addr),
			Cache: im.threadCache(s, bodies[addr], where.addr), Throws: s.throws,
		}
		if err := im.findReturns(&p, s, known); err != nil {
			o.leave(s.name, err.Error())
			continue
		}
		o.Probes = append(o.Probes, p)
	}
	sort.Slice(o.Probes, func(i, j int) bool { return o.Probes[i].Entry < o.Probes[j].Entry })
	return nil
}

// placeAligned is placeOne with the alignment as another argument, where that can
// be read at the same instruction.
func (im *image) placeAligned(s symbol, code body, targets map[uint64]bool) (spot, bool) {
	where, ok := im.placeOne(s, code, targets)
	if !ok || s.align == 0 || s.family != Glibc {
		return where, ok
	}
	s.args[1] = s.align
	if both, ok := im.placeOne(s, code, targets); ok && both.addr == where.addr {
		return both, true
	}
	return where, true
}

// placeOne chooses the instruction for one function; code is nil where only
// the entry is safe.
func (im *image) placeOne(s symbol, code body, targets map[uint64]bool) (spot, bool) {
	if im.file.Machine == elf.EM_AARCH64 {
		return im.placeARM64(s.addr, s.function)
	}
	if code != nil {
		return code.place(s.function, targets), true
	}
	raw := im.code(s.addr, 16)
	first, err := decodeX86(raw, s.addr)
	if err != nil {
		return spot{addr: s.addr, args: naturalArgs(s.args), cost: Stepped, instruction: "unknown"}, len(raw) > 0
	}
	return entrySpot(first, s.function), true
}

// branchTargets decodes the candidates and collects every address in their
// straight beginnings that a branch leads to. Functions about which that
// cannot be known are left out of bodies.
func (im *image) branchTargets(known entries) (map[uint64]bool, map[uint64]body, error) {
	bodies := map[uint64]body{}
	if im.file.Machine != elf.EM_X86_64 {
		return nil, bodies, nil
	}
	var spans []span
	for addr, s := range known {
		code, ok := im.body(addr, s.size)
		if !ok || code.jumpTable() {
			continue
		}
		bodies[addr] = code
		begin := code.straight()
		spans = append(spans, span{addr + 1, begin[len(begin)-1].next()})
	}
	targets, err := im.branchesInto(spans)
	if errors.Is(err, errTooLarge) {
		return nil, map[uint64]body{}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, code := range bodies {
		code.targets(targets)
	}
	return targets, bodies, nil
}
