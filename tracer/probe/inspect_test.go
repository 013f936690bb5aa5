package probe

import (
	"bytes"
	"debug/elf"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
	"github.com/memtrace/memtrace/tracer/debugfile/elftest"
)

func TestContract(t *testing.T) {
	// bpf/ relies on these numbers.
	shapes := []Shape{ShapeNone, Malloc, Calloc, Realloc, Reallocarray, Free, PosixMemalign, Mmap, Munmap, Release, Resize,
		PoolAlloc, PoolCurrent, PoolBegin, PoolBeginOut, PoolChange, Mremap, Brk, Sbrk}
	for i, s := range shapes {
		if int(s) != i {
			t.Errorf("%v = %d, want %d", s, s, i)
		}
		if want := s != ShapeNone && s != Free && s != Munmap && s != MarkAlloc && s != MarkFree; s.HasReturn() != want {
			t.Errorf("%v.HasReturn() = %v", s, s.HasReturn())
		}
	}
	regs := strings.Fields("none rdi rsi rdx rcx r8 r9 rax rbx rbp r10 r11 r12 r13 r14 r15")
	for i, name := range regs {
		if Reg(i).String() != name {
			t.Errorf("register %d is %v, want %s", i, Reg(i), name)
		}
	}
}

// TestInspectAArch64 works on a file made by hand, so it runs anywhere.
func TestInspectAArch64(t *testing.T) {
	o, err := Inspect(bytes.NewReader(elfFile(elf.EM_AARCH64, []rawFunction{
		{"malloc", unhex(t, "fd7bbea9 c0035fd6"), elf.STT_FUNC},         // stp x29,x30,[sp,#-32]!; ret
		{"free", unhex(t, "400000b4 c0035fd6 c0035fd6"), elf.STT_FUNC},  // cbz x0,.+8
		{"cfree", unhex(t, "c0ffff17"), elf.STT_FUNC},                   // b .-256: free
		{"posix_memalign", unhex(t, "5f2403d5 c0035fd6"), elf.STT_FUNC}, // bti c
		{"calloc", unhex(t, "c0035fd6"), elf.STT_GNU_IFUNC},
	})))
	if err != nil {
		t.Fatal(err)
	}
	want := []Probe{
		{Name: "malloc", Family: FamilyUnknown, Shape: Malloc, Entry: 0x200, Offset: 0x200, Args: [3]Reg{1}, Cost: Stepped, Instruction: "stp x29, x30, [sp,#-32]!"},
		{Name: "free", Family: FamilyUnknown, Shape: Free, Entry: 0x300, Offset: 0x300, Args: [3]Reg{1}, Cost: Emulated, Instruction: "cbz x0, .+0x8"},
		{Name: "posix_memalign", Family: FamilyUnknown, Shape: PosixMemalign, Entry: 0x500, Offset: 0x500, Args: [3]Reg{1, 3}, Cost: Stepped, Instruction: "hint #0x22"},
	}
	if !reflect.DeepEqual(o.Probes, want) {
		t.Errorf("probes = %+v\nwant %+v", o.Probes, want)
	}
	skipped := []Skip{{"calloc", "an indirect function: its code is chosen at run time"}, {"cfree", "passes on to free"}}
	if !slices.Equal(o.Skipped, skipped) {
		t.Errorf("skipped = %v, want %v", o.Skipped, skipped)
	}
}

// TestSimulatedARM64 checks one encoding of each simulated instruction (as
// the Arm Architecture Reference Manual gives it) and some neighbours.
func TestSimulatedARM64(t *testing.T) {
	for word, want := range map[uint32]bool{
		0x14000001: true, 0x97ffffff: true, 0xd61f0200: true, 0xd63f0000: true, 0xd65f03c0: true, // b, bl, br, blr, ret
		0x54000040: true, 0xb4000040: true, 0x35000040: true, 0x36000040: true, 0xb7f80040: true, // b.eq, cbz, cbnz, tbz, tbnz
		0x10000000: true, 0x90000010: true, // adr, adrp
		0xa9be7bfd: false, 0xd503245f: false, 0xd503233f: false, 0xd503201f: false, // stp, bti c, paciasp, nop
		0xd65f0bff: false, 0xd4000001: false, 0x58000040: false, 0xf100041f: false, // retaa, svc, ldr literal, cmp
	} {
		if got := simulatedARM64(word); got != want {
			t.Errorf("simulatedARM64(%#x) = %v, want %v", word, got, want)
		}
	}
}

func TestInspectRefuses(t *testing.T) {
	sound := elfFile(elf.EM_X86_64, []rawFunction{{"malloc", []byte{0xc3}, elf.STT_FUNC}, {"free", []byte{0xc3}, elf.STT_FUNC}})
	narrow := bytes.Clone(sound)
	narrow[elf.EI_CLASS] = byte(elf.ELFCLASS32)
	for _, tt := range []struct {
		name string
		file []byte
		want error
	}{
		{"empty", nil, ErrNotELF},
		{"text", []byte("#!/bin/sh\necho a script\n"), ErrNotELF},
		{"32-bit", narrow, Err32Bit},
		{"RISC-V", elfFile(elf.EM_RISCV, nil), ErrNotSupportedMachine},
	} {
		if o, err := Inspect(bytes.NewReader(tt.file)); !errors.Is(err, tt.want) {
			t.Errorf("%s: Inspect = %+v, %v; want %v", tt.name, o, err, tt.want)
		}
	}
	for _, n := range []int{20, 63, 64, 100, len(sound) - 300, len(sound) - 1} {
		if _, err := Inspect(bytes.NewReader(sound[:n])); err == nil {
			t.Errorf("cut off after %d of %d bytes: no error", n, len(sound))
		}
	}
}

// TestInspectNeedsBoth: malloc without free is no allocator, nor are functions
// that are only referred to.
func TestInspectNeedsBoth(t *testing.T) {
	o, err := Inspect(bytes.NewReader(elfFile(elf.EM_X86_64, []rawFunction{{"malloc", []byte{0xc3}, elf.STT_FUNC}})))
	if err != nil || len(o.Probes) != 0 {
		t.Errorf("malloc alone: %+v, %v; want no probes", o.Probes, err)
	}
	o, err = Inspect(bytes.NewReader(elfFile(elf.EM_X86_64, []rawFunction{
		{"malloc", []byte{0xc3}, elf.STT_FUNC}, {"free", []byte{0xc3}, elf.STT_OBJECT},
	})))
	if err != nil || len(o.Probes) != 0 {
		t.Errorf("a variable named free: %+v, %v; want no probes", o.Probes, err)
	}
}

// TestInspectStaticWithoutFree: linkers leave free out of a static program that never calls it.
func TestInspectStaticWithoutFree(t *testing.T) {
	source := asmFunction("__libc_start_main", "ret") + asmFunction("malloc", "nop; ret")
	for _, flags := range [][]string{{"-static"}, {"-static-pie"}} {
		o := inspectFile(t, link(t, source, flags...))
		if _, ok := probeNamed(o, "malloc"); !ok || len(o.Probes) != 1 || o.Family != Musl {
			t.Errorf("%v: family %s, probes %+v; want musl's malloc", flags, o.Family, o.Probes)
		}
	}
}

func FuzzInspect(f *testing.F) {
	functions := []rawFunction{
		{"malloc", []byte{0x53, 0x5b, 0xc3}, elf.STT_FUNC},
		{"free", []byte{0x48, 0x85, 0xff, 0x74, 0x01, 0xc3, 0xc3}, elf.STT_FUNC},
		{"cfree", []byte{0xe9, 0xfb, 0xfe, 0xff, 0xff}, elf.STT_FUNC},
		{"calloc", []byte{0xc3}, elf.STT_GNU_IFUNC},
	}
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		file := elfFile(machine, functions)
		f.Add(file)
		f.Add(file[:len(file)/2])
	}
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(t *testing.T, file []byte) {
		defer costtest.Bound(t)()
		var o Object
		var err error
		if n := elftest.Allocated(func() { o, err = Inspect(bytes.NewReader(file)) }); n > 256<<20 {
			t.Errorf("%d bytes taken for a file of %d", n, len(file))
		}
		if err != nil {
			return
		}
		for _, p := range o.Probes {
			if p.Offset < p.Entry || p.Offset >= uint64(len(file)) || p.Shape == ShapeNone || p.Args[0] == RegNone {
				t.Errorf("%+v lies outside the file of %d bytes, or wants nothing", p, len(file))
			}
		}
	})
}
