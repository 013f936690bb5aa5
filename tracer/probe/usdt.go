package probe

import (
	"bytes"
	"debug/elf"
	"errors"
	"math"
	"strings"
)

// StaticProbe is a place in a file that its authors marked for tracers, a
// USDT probe of systemtap's kind
// (https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation).
type StaticProbe struct {
	Provider, Name string
	Offset         uint64   // file offset of its instruction, a nop
	Semaphore      uint64   // file offset of the counter of its tracers; 0: none
	Args           []string // as the compiler wrote them

	addr uint64 // of its instruction
}

// Bounds on what is taken of a file's notes.
const (
	maxStaticNotes  = 4 << 20 // bytes of .note.stapsdt
	maxStaticProbes = 1 << 14
	maxStaticArgs   = 12
)

const (
	stapNote = 3 // NT_STAPSDT
	stapName = "stapsdt\x00"
)

// String is what people call the probe and its arguments: "libc:memory_sbrk_more 8@%rdi 8@%rsi".
func (p StaticProbe) String() string {
	return strings.Join(append([]string{p.name()}, p.Args...), " ")
}

func (p StaticProbe) name() string { return p.Provider + ":" + p.Name }

// isAboutMemory reports whether a probe is about memory: those of OpenTelemetry's
// contract for allocators, and glibc's marks of a heap's growth.
func (p StaticProbe) isAboutMemory() bool {
	return p.Provider == "otel_memory" || p.Provider == "libc" && strings.HasPrefix(p.Name, "memory_")
}

// staticProbes lists the USDT probes of a file. One that can't be is left out
// with the reason.
func (im *image) staticProbes() (found []StaticProbe, skipped []Skip, err error) {
	section := im.file.Section(".note.stapsdt")
	if section == nil {
		return nil, nil, nil
	}
	notes, err := im.table(section, maxStaticNotes)
	if err != nil {
		return nil, nil, err
	}
	base := uint64(0)
	if s := im.file.Section(".stapsdt.base"); s != nil {
		base = s.Addr
	}
	for len(notes) > 0 && len(found) < maxStaticProbes {
		var desc []byte
		if desc, notes, err = im.nextNote(notes); err != nil {
			return nil, nil, err
		}
		if desc == nil {
			continue
		}
		p, err := im.staticProbe(desc, base)
		switch {
		case p.Provider == "":
		case err != nil:
			skipped = append(skipped, Skip{Name: p.name(), Reason: err.Error()})
		default:
			found = append(found, p)
		}
	}
	return found, skipped, nil
}

// nextNote returns the description of the first note, nil if it is of another
// kind, and the notes after it.
func (im *image) nextNote(notes []byte) (desc, rest []byte, err error) {
	errShort := errors.New("section .note.stapsdt is cut off: corrupt ELF file")
	if len(notes) < 12 {
		return nil, nil, errShort
	}
	name, size, kind := uint64(im.order.Uint32(notes)), uint64(im.order.Uint32(notes[4:])), im.order.Uint32(notes[8:])
	from := 12 + (name+3)&^3
	to := from + (size+3)&^3
	if from+size > uint64(len(notes)) {
		return nil, nil, errShort
	}
	if kind == stapNote && string(notes[12:12+name]) == stapName {
		desc = notes[from : from+size]
	}
	return desc, notes[min(to, uint64(len(notes))):], nil
}

// staticProbe reads a note's description: three addresses and three strings.
// The addresses are off by what the base has moved since they were written.
func (im *image) staticProbe(desc []byte, base uint64) (p StaticProbe, err error) {
	if len(desc) < 24 {
		return p, nil
	}
	texts := bytes.SplitN(desc[24:], []byte{0}, 4)
	if len(texts) != 4 || !isPlain(texts[0]) || !isPlain(texts[1]) || !isPlain(texts[2]) {
		return p, nil
	}
	p.Provider, p.Name = string(texts[0]), string(texts[1])
	pc, written, semaphore := im.order.Uint64(desc), im.order.Uint64(desc[8:]), im.order.Uint64(desc[16:])
	if base == 0 || written == 0 {
		base, written = 0, 0
	}
	var ok bool
	p.addr = pc + base - written
	if p.Offset, ok = im.fileOffset(p.addr); !ok {
		return p, errors.New("its place lies outside the code")
	}
	if semaphore != 0 {
		if p.Semaphore, ok = im.counterOffset(semaphore + base - written); !ok {
			return p, errors.New("its semaphore is no counter that the kernel can raise: it lies outside the file's data, or at an odd place")
		}
	}
	for text := range strings.FieldsSeq(strings.ReplaceAll(string(texts[2]), ", ", ",")) { // arm64: "[sp, 16]"
		if p.Args = append(p.Args, text); len(p.Args) > maxStaticArgs {
			return p, errors.New("it has too many arguments")
		}
	}
	return p, nil
}

// isPlain says whether a text is of printable ASCII alone.
func isPlain(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// counterOffset is the file offset of a semaphore: 16 bits in data that is
// loaded to be written (kernel/events/uprobes.c, valid_ref_ctr_vma and
// __uprobe_register), at an offset for which perf events have room.
func (im *image) counterOffset(addr uint64) (uint64, bool) {
	for _, s := range im.file.Progs {
		if s.Type == elf.PT_LOAD && s.Flags&elf.PF_W != 0 && addr >= s.Vaddr && addr-s.Vaddr < s.Filesz {
			offset := addr - s.Vaddr + s.Off
			return offset, offset%2 == 0 && offset <= math.MaxUint32 && offset != 0
		}
	}
	return 0, false
}
