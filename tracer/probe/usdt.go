package probe

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// StaticProbe is a place in a file that its authors marked for tracers, a
// USDT probe of systemtap's kind
// (https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation).
type StaticProbe struct {
	Provider, Name string
	Offset         uint64 // file offset of its instruction, a nop
	Semaphore      uint64 // file offset of the counter of its tracers; 0: none
	Args           []StaticArg
}

// StaticArg is where an argument of a StaticProbe is.
type StaticArg struct {
	Kind   ArgKind
	Size   uint8 // bytes: 1, 2, 4 or 8
	Signed bool
	Reg    Reg   // of ArgRegister and ArgMemory
	Stack  bool  // of ArgMemory: the stack pointer takes Reg's place
	Value  int64 // of ArgConstant; of ArgMemory the distance from the register
}

// ArgKind says what a StaticArg is.
type ArgKind uint8

const (
	ArgConstant ArgKind = 1 + iota
	ArgRegister
	ArgMemory // the word at the register plus a distance
)

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

// String is what people call the probe and its arguments: "libc:memory_sbrk_more 8@rdi 8@rsi".
func (p StaticProbe) String() string {
	text := p.Provider + ":" + p.Name
	for _, a := range p.Args {
		text += " " + a.String()
	}
	return text
}

// String is the argument's size, negative if it is signed, and its place.
func (a StaticArg) String() string {
	size, reg := strconv.Itoa(int(a.Size)), a.Reg.String()
	if a.Signed {
		size = "-" + size
	}
	if a.Stack {
		reg = "rsp"
	}
	switch a.Kind {
	case ArgConstant:
		return fmt.Sprintf("%s@$%d", size, a.Value)
	case ArgMemory:
		return fmt.Sprintf("%s@%d(%s)", size, a.Value, reg)
	}
	return size + "@" + reg
}

// tellsOfMemory says whether a probe is about memory: those of OpenTelemetry's
// contract for allocators, and glibc's marks of a heap's growth.
func (p StaticProbe) tellsOfMemory() bool {
	return p.Provider == "otel_memory" || p.Provider == "libc" && strings.HasPrefix(p.Name, "memory_")
}

// memoryProbes lists the USDT probes of a file that are about memory. What is
// amiss with notes is no reason not to trace the file.
func (im *image) memoryProbes() []StaticProbe {
	all, _, _ := im.staticProbes()
	return slices.DeleteFunc(all, func(p StaticProbe) bool { return !p.tellsOfMemory() })
}

// staticProbes lists the USDT probes of a file. One whose arguments are not
// understood is left out with the reason.
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
			skipped = append(skipped, Skip{Name: p.Provider + ":" + p.Name, Reason: err.Error()})
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
	if len(texts) != 4 {
		return p, nil
	}
	p.Provider, p.Name = string(texts[0]), string(texts[1])
	pc, written, semaphore := im.order.Uint64(desc), im.order.Uint64(desc[8:]), im.order.Uint64(desc[16:])
	if base == 0 || written == 0 {
		base, written = 0, 0
	}
	var ok bool
	if p.Offset, ok = im.fileOffset(pc + base - written); !ok {
		return p, errors.New("its place lies outside the code")
	}
	if semaphore != 0 {
		if p.Semaphore, ok = im.dataOffset(semaphore + base - written); !ok {
			return p, errors.New("its semaphore lies outside the file")
		}
	}
	for text := range strings.FieldsSeq(strings.ReplaceAll(string(texts[2]), ", ", ",")) { // arm64: "[sp, 16]"
		arg, err := parseStaticArg(text, im.file.Machine)
		if err != nil {
			return p, err
		}
		if p.Args = append(p.Args, arg); len(p.Args) > maxStaticArgs {
			return p, errors.New("it has too many arguments")
		}
	}
	return p, nil
}

// dataOffset is the file offset of an address in a segment that is loaded.
func (im *image) dataOffset(addr uint64) (uint64, bool) {
	for _, s := range im.file.Progs {
		if s.Type == elf.PT_LOAD && addr >= s.Vaddr && addr-s.Vaddr < s.Filesz {
			return addr - s.Vaddr + s.Off, true
		}
	}
	return 0, false
}

// Arguments as compilers write operands of assembly, of GCC and clang: "8@%rdi",
// "-4@$5", "8@-8(%rbp)"; on arm64 "8@x0", "-4@5", "8@[sp, 16]". One with an
// index register, or at the address of a symbol, is not understood.
var (
	staticArg   = regexp.MustCompile(`^(-?)([1248])@(.+)$`)
	x86Register = regexp.MustCompile(`^%([a-z0-9]+)$`)
	x86Memory   = regexp.MustCompile(`^(-?(?:0x)?[0-9a-f]*)\(%([a-z0-9]+)\)$`)
	armRegister = regexp.MustCompile(`^([xw][0-9]+)$`)
	armMemory   = regexp.MustCompile(`^\[(x[0-9]+|sp)(?:,(-?[0-9]+))?\]$`)
)

func parseStaticArg(text string, machine elf.Machine) (a StaticArg, err error) {
	bad := fmt.Errorf("its argument %q is not understood", text)
	parts := staticArg.FindStringSubmatch(text)
	if parts == nil {
		return a, bad
	}
	a.Signed, a.Size = parts[1] == "-", parts[2][0]-'0'
	constant, register, memory := strings.TrimPrefix(parts[3], "$"), x86Register, x86Memory
	if machine == elf.EM_AARCH64 {
		register, memory = armRegister, armMemory
	}
	if a.Value, err = strconv.ParseInt(constant, 0, 64); err == nil {
		a.Kind = ArgConstant
		return a, nil
	}
	name, distance := "", ""
	if m := register.FindStringSubmatch(parts[3]); m != nil {
		a.Kind, name = ArgRegister, m[1]
	} else if m := memory.FindStringSubmatch(parts[3]); m != nil {
		a.Kind, distance, name = ArgMemory, m[1], m[2]
		if machine == elf.EM_AARCH64 {
			name, distance = m[1], m[2]
		}
	}
	if distance != "" {
		if a.Value, err = strconv.ParseInt(distance, 0, 32); err != nil {
			return a, bad
		}
	}
	a.Reg = staticRegister(name, machine)
	a.Stack = a.Kind == ArgMemory && (name == "rsp" || name == "sp")
	if a.Reg == RegNone && !a.Stack {
		return a, bad
	}
	return a, nil
}

// staticRegister finds a register by any of its names: of 64 bits or of their
// lower parts.
func staticRegister(name string, machine elf.Machine) Reg {
	if machine == elf.EM_AARCH64 {
		n, err := strconv.ParseUint(strings.TrimLeft(name, "xw"), 10, 8)
		if err != nil || n > 5 {
			return RegNone // bpf/headers/regs.h has no more
		}
		return Reg(n + 1)
	}
	if len(name) > 1 && name[0] == 'r' && name[1] <= '9' {
		name = strings.TrimRight(name, "dwb")
	} else if full, ok := lowerParts[name]; ok {
		name = full
	}
	for r, known := range amd64RegNames[1:] {
		if name == known {
			return Reg(r + 1)
		}
	}
	return RegNone
}

// lowerParts are the names of parts of amd64's first registers.
var lowerParts = map[string]string{
	"eax": "rax", "ax": "rax", "al": "rax", "ebx": "rbx", "bx": "rbx", "bl": "rbx",
	"ecx": "rcx", "cx": "rcx", "cl": "rcx", "edx": "rdx", "dx": "rdx", "dl": "rdx",
	"esi": "rsi", "si": "rsi", "sil": "rsi", "edi": "rdi", "di": "rdi", "dil": "rdi",
	"ebp": "rbp", "bp": "rbp", "bpl": "rbp",
}
