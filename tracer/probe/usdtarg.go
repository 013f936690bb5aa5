package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// StaticArg is where an argument of a StaticProbe is.
type StaticArg struct {
	Kind    ArgKind
	Size    uint8 // bytes: 1, 2, 4 or 8
	Signed  bool
	Scaled  uint8  // of ArgMemory: Index counts 2 to the power of this less one times; 0: there is no index
	Base    uint16 // of ArgRegister and ArgMemory: where the register is in the kernel's struct pt_regs
	Index   uint16 // of ArgMemory: another one, likewise
	Value   int64  // of ArgConstant; else a distance in bytes
	Pending bool   // of ArgRelative: Value is from a symbol that is still to be found
}

// ArgKind says what a StaticArg is. The values are a contract with bpf/.
type ArgKind uint8

const (
	ArgNone     ArgKind = iota
	ArgConstant         // Value
	ArgRegister
	ArgMemory   // the word at the register plus the index plus the distance
	ArgRelative // the word at the distance from the probed instruction
)

// Arguments as compilers write operands of assembly, of GCC and clang: "8@%rdi",
// "-4@$5", "8@-8(%rbp)", "8@16(%rsp,%rax,8)", "8@counter+8(%rip)"; on arm64
// "8@x0", "-4@5", "8@[sp, 16]". Floating-point registers, segments and what is not
// listed here are not understood.
var (
	staticArg    = regexp.MustCompile(`^(-?)([1248])@(.+)$`)
	x86Register  = regexp.MustCompile(`^%([a-z0-9]+)$`)
	x86Memory    = regexp.MustCompile(`^(-?(?:0x)?[0-9a-f]*)\(%([a-z0-9]+)(?:,%([a-z0-9]+)(?:,([1248]))?)?\)$`)
	x86Relative  = regexp.MustCompile(`^([A-Za-z_.$][A-Za-z0-9_.$]*)([+-][0-9]+)?\(%rip\)$`)
	armRegister  = regexp.MustCompile(`^([xw][0-9]+)$`)
	armMemory    = regexp.MustCompile(`^\[(x[0-9]+|sp)(?:,(-?[0-9]+))?\]$`)
	scaledBy     = []string{"1", "2", "4", "8"}
	errNoOperand = errors.New("no operand of a known form")
)

// maxStaticArgText is longer than any argument that is understood.
const maxStaticArgText = 128

// parseStaticArg reads one argument. Of one relative to a symbol, it returns
// which.
func parseStaticArg(text string, machine elf.Machine) (a StaticArg, symbol string, err error) {
	bad := func(why error) error {
		return fmt.Errorf("its argument %.*q is not understood: %w", maxStaticArgText, text, why)
	}
	parts := staticArg.FindStringSubmatch(text)
	if parts == nil || len(text) > maxStaticArgText {
		return a, "", bad(errors.New("it is not of the form SIZE@OPERAND"))
	}
	a.Signed, a.Size = parts[1] == "-", parts[2][0]-'0'
	operand := parts[3]
	if constant, err := strconv.ParseInt(strings.TrimPrefix(operand, "$"), 0, 64); err == nil {
		a.Kind, a.Value = ArgConstant, constant
		return a, "", nil
	}
	if machine == elf.EM_AARCH64 {
		err = a.parseARM(operand)
	} else {
		symbol, err = a.parseX86(operand)
	}
	if err != nil {
		return StaticArg{}, "", bad(err)
	}
	return a, symbol, nil
}

func (a *StaticArg) parseX86(operand string) (symbol string, err error) {
	if m := x86Register.FindStringSubmatch(operand); m != nil {
		return "", a.register(x86Place(m[1]))
	}
	if m := x86Relative.FindStringSubmatch(operand); m != nil {
		if len(m[1]) >= maxKnownName {
			return "", fmt.Errorf("names of variables have less than %d bytes", maxKnownName)
		}
		a.Kind, a.Pending = ArgRelative, true
		return m[1], a.distance(m[2])
	}
	if m := x86Memory.FindStringSubmatch(operand); m != nil {
		return "", errors.Join(a.distance(m[1]), a.memory(m[2]), a.scaled(m[3], m[4]))
	}
	return "", errNoOperand
}

func (a *StaticArg) parseARM(operand string) error {
	if m := armRegister.FindStringSubmatch(operand); m != nil {
		return a.register(armPlace(m[1]))
	}
	m := armMemory.FindStringSubmatch(operand)
	if m == nil {
		return errNoOperand
	}
	a.Kind = ArgMemory
	at, ok := armPlace(m[1])
	if !ok {
		return fmt.Errorf("no register is called %s", m[1])
	}
	a.Base = at
	return a.distance(m[2])
}

func (a *StaticArg) register(at uint16, ok bool) error {
	if !ok {
		return errors.New("that is no general register")
	}
	a.Kind, a.Base = ArgRegister, at
	return nil
}

// memory takes a base register of amd64. Addresses of 32 bits are not understood.
func (a *StaticArg) memory(name string) (err error) {
	a.Kind = ArgMemory
	a.Base, err = x86Whole(name)
	return err
}

// scaled takes an index register of amd64 and its scale, both "" where there is none.
func (a *StaticArg) scaled(name, scale string) (err error) {
	if name == "" {
		return nil
	}
	if name == "rsp" {
		return errors.New("rsp can be no index")
	}
	a.Scaled = uint8(max(slices.Index(scaledBy, scale), 0)) + 1
	a.Index, err = x86Whole(name)
	return err
}

func (a *StaticArg) distance(text string) (err error) {
	if text == "" {
		return nil
	}
	a.Value, err = strconv.ParseInt(text, 0, 32)
	return err
}

// x86Whole is the place of a register of 64 bits.
func x86Whole(name string) (uint16, error) {
	at, ok := x86Place(name)
	if !ok || name[0] != 'r' || strings.TrimRight(name, "dwb") != name {
		return 0, fmt.Errorf("%s is no general register of 64 bits", name)
	}
	return at, nil
}

// x86Registers are those of struct pt_regs that an argument can be in, by
// their places there (arch/x86/include/asm/ptrace.h).
var x86Registers = map[string]uint16{
	"r15": 0, "r14": 8, "r13": 16, "r12": 24, "rbp": 32, "rbx": 40, "r11": 48, "r10": 56, "r9": 64, "r8": 72,
	"rax": 80, "rcx": 88, "rdx": 96, "rsi": 104, "rdi": 112, "rsp": 152,
}

// x86Place finds a register by any of its names: of 64 bits or of their lower
// parts.
func x86Place(name string) (uint16, bool) {
	if len(name) > 1 && name[0] == 'r' && name[1] <= '9' {
		name = strings.TrimRight(name, "dwb")
	} else if full, ok := lowerParts[name]; ok {
		name = full
	}
	at, ok := x86Registers[name]
	return at, ok
}

// armPlace is the place of a register in struct pt_regs
// (arch/arm64/include/asm/ptrace.h): x0 to x30 and sp.
func armPlace(name string) (uint16, bool) {
	if name == "sp" {
		return 31 * 8, true
	}
	n, err := strconv.ParseUint(name[1:], 10, 8)
	return uint16(n) * 8, err == nil && n <= 30
}

// lowerParts are the names of parts of amd64's first registers.
var lowerParts = map[string]string{
	"eax": "rax", "ax": "rax", "al": "rax", "ebx": "rbx", "bx": "rbx", "bl": "rbx",
	"ecx": "rcx", "cx": "rcx", "cl": "rcx", "edx": "rdx", "dx": "rdx", "dl": "rdx",
	"esi": "rsi", "si": "rsi", "sil": "rsi", "edi": "rdi", "di": "rdi", "dil": "rdi",
	"ebp": "rbp", "bp": "rbp", "bpl": "rbp", "esp": "rsp", "sp": "rsp", "spl": "rsp",
}
