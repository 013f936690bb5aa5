//go:build amd64

package probe

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"reflect"
	"strings"
	"testing"
)

// note is a USDT probe as sys/sdt.h has the assembler write it.
func note(provider, name, args, semaphore string) string {
	return "990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n" +
		".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n" +
		"993: .8byte 990b, _.stapsdt.base, " + semaphore + "\n" +
		".asciz \"" + provider + "\"\n.asciz \"" + name + "\"\n.asciz \"" + args + "\"\n" +
		"994: .balign 4\n.popsection\n" +
		".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" +
		".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n.endif\n"
}

// The places of probes and semaphores are those that the linker's symbols say.
func TestStaticProbes(t *testing.T) {
	source := ".data\n.globl counter\n.space 8\ncounter: .short 0\n.text\n.globl _start\n_start: push %rbx\n" +
		note("otel_memory", "alloc", "8@%rbx -4@%esi 8@$4096", "counter") +
		".globl at\nat: " + note("libc", "memory_sbrk_more", "8@-16(%rbp) 8@(%rsp)", "0") +
		note("libc", "setjmp", "8@%rdi", "0") + note("libc", "memory_odd", "8@arena(%rip)", "0") + "ret\n" + asmFunction("malloc", "ret") + asmFunction("free", "ret")
	path := link(t, source, "-shared")
	im, err := openFileImage(t, path)
	if err != nil {
		t.Fatal(err)
	}
	found, skipped, err := im.staticProbes()
	if err != nil || len(found) != 3 || len(skipped) != 1 || skipped[0].Name != "libc:memory_odd" || !strings.Contains(skipped[0].Reason, "arena(%rip)") {
		t.Fatalf("%+v, %+v, %v", found, skipped, err)
	}
	if got, want := found[0].String(), "otel_memory:alloc 8@rbx -4@rsi 8@$4096"; got != want {
		t.Errorf("the first probe is %q, want %q", got, want)
	}
	if got, want := found[1].String(), "libc:memory_sbrk_more 8@-16(rbp) 8@0(rsp)"; got != want {
		t.Errorf("the second probe is %q, want %q", got, want)
	}
	at, _ := im.fileOffset(symbolAt(t, path, "at"))
	counter, _ := im.dataOffset(symbolAt(t, path, "counter"))
	if found[1].Offset != at || found[0].Offset != at-1 || found[0].Semaphore != counter || found[1].Semaphore != 0 || counter == 0 {
		t.Errorf("%+v; the second nop is at %#x, the semaphore at %#x", found, at, counter)
	}
	if o := inspectFile(t, path); len(o.Marks) != 2 || len(o.Probes) != 2 {
		t.Errorf("of %d probes these are about memory: %v; %d functions are probed", len(found), o.Marks, len(o.Probes))
	}
}

func openFileImage(t *testing.T, path string) (*image, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return openImage(f)
}

func TestParseStaticArgs(t *testing.T) {
	for text, want := range map[string]StaticArg{
		"8@%rdi":        {Kind: ArgRegister, Size: 8, Reg: RegRDI},
		"-4@%eax":       {Kind: ArgRegister, Size: 4, Signed: true, Reg: RegRAX},
		"4@%r10d":       {Kind: ArgRegister, Size: 4, Reg: RegR10},
		"2@%r8w":        {Kind: ArgRegister, Size: 2, Reg: RegR8},
		"1@%sil":        {Kind: ArgRegister, Size: 1, Reg: RegRSI},
		"8@8(%rsp)":     {Kind: ArgMemory, Size: 8, Stack: true, Value: 8},
		"8@-0x10(%rbp)": {Kind: ArgMemory, Size: 8, Reg: RegRBP, Value: -16},
		"-4@(%rdx)":     {Kind: ArgMemory, Size: 4, Signed: true, Reg: RegRDX},
		"-4@$-1":        {Kind: ArgConstant, Size: 4, Signed: true, Value: -1},
	} {
		if got, err := parseStaticArg(text, elf.EM_X86_64); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]StaticArg{
		"8@x1":        {Kind: ArgRegister, Size: 8, Reg: 2},
		"-4@w0":       {Kind: ArgRegister, Size: 4, Signed: true, Reg: 1},
		"8@[sp,16]":   {Kind: ArgMemory, Size: 8, Stack: true, Value: 16},
		"8@[x3]":      {Kind: ArgMemory, Size: 8, Reg: 4},
		"4@7":         {Kind: ArgConstant, Size: 4, Value: 7},
		"8@[x2,-256]": {Kind: ArgMemory, Size: 8, Reg: 3, Value: -256},
	} {
		if got, err := parseStaticArg(text, elf.EM_AARCH64); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "8@", "3@%rdi", "8@%xmm0", "8@%rsp", "8@(%rax,%rbx,8)", "8@var(%rip)", "8@%r16", "8@%r", "x@%rdi", "8@99999999999(%rdi)", "8@(%rip)", "8@-(%rdi)"} {
		if got, err := parseStaticArg(text, elf.EM_X86_64); err == nil {
			t.Errorf("%q passes for %+v", text, got)
		}
	}
}

// A file's notes may be anything.
func FuzzStaticNotes(f *testing.F) {
	f.Add([]byte("\x08\x00\x00\x00\x1c\x00\x00\x00\x03\x00\x00\x00stapsdt\x00........................a\x00b\x00c\x00\x00"))
	f.Fuzz(func(t *testing.T, notes []byte) {
		im := &image{order: binary.LittleEndian, file: &elf.File{FileHeader: elf.FileHeader{Machine: elf.EM_X86_64}}}
		for len(notes) > 0 {
			desc, rest, err := im.nextNote(notes)
			if err != nil {
				return
			}
			if len(rest) >= len(notes) {
				t.Fatalf("%d bytes of notes become %d", len(notes), len(rest))
			}
			if desc != nil {
				_, _ = im.staticProbe(desc, 0x1000)
			}
			notes = rest
		}
	})
}
