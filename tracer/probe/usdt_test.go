//go:build amd64

package probe

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
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
		note("libc", "setjmp", "8@%rdi", "0") + note("libc", "memory_odd", "8@%rdi", "counter+1") + "ret\n" + asmFunction("malloc", "ret") + asmFunction("free", "ret")
	path := link(t, source, "-shared")
	im, err := openFileImage(t, path)
	if err != nil {
		t.Fatal(err)
	}
	found, skipped, err := im.staticProbes()
	if err != nil || len(found) != 3 || len(skipped) != 1 || skipped[0].Name != "libc:memory_odd" || !strings.Contains(skipped[0].Reason, "semaphore") {
		t.Fatalf("%+v, %+v, %v", found, skipped, err)
	}
	if got, want := found[0].String(), "otel_memory:alloc 8@%rbx -4@%esi 8@$4096"; got != want {
		t.Errorf("the first probe is %q, want %q", got, want)
	}
	if got, want := found[1].String(), "libc:memory_sbrk_more 8@-16(%rbp) 8@(%rsp)"; got != want {
		t.Errorf("the second probe is %q, want %q", got, want)
	}
	at, _ := im.fileOffset(symbolAt(t, path, "at"))
	counter, _ := im.counterOffset(symbolAt(t, path, "counter"))
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

// inspectMarks inspects a program for the USDT probes of a layer.
func inspectMarks(t *testing.T, source string) Object {
	t.Helper()
	functions, err := Layer("otel_memory")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(link(t, source, "-shared"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o, err := inspectAt(f, locator{}, Choice{Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const markStart = ".data\nvalue: .quad 0\n.size value, 8\n.type value, @object\ncounter: .short 0\n.text\n.globl _start\n_start: push %rbx\n"

// What is asked for is probed, with its arguments and its semaphore.
func TestMarksAreProbed(t *testing.T) {
	o := inspectMarks(t, markStart+note("otel_memory", "alloc", "8@%rbx -4@8(%rsp,%rax,4) 8f@%xmm0", "counter")+
		note("otel_memory", "free", "8@value+8(%rip)", "0")+note("otel_memory", "mmap", "8@%rdi", "0")+"ret\n")
	// The third argument can't be read.
	if len(o.Probes) != 0 || len(o.Skipped) != 2 || !strings.Contains(o.Skipped[0].Reason, `"8f@%xmm0"`) {
		t.Fatalf("probes %+v, skipped %+v", o.Probes, o.Skipped)
	}
	o = inspectMarks(t, markStart+note("otel_memory", "alloc", "8@%rbx -4@8(%rsp,%rax,4)", "counter")+
		note("otel_memory", "free", "8@value+8(%rip)", "0")+note("otel_memory", "mmap", "8@%rdi", "0")+"ret\n")
	if len(o.Probes) != 2 || len(o.Skipped) != 0 || len(o.Marks) != 1 {
		t.Fatalf("probes %+v, skipped %+v, marks %v", o.Probes, o.Skipped, o.Marks)
	}
	alloc, free := o.Probes[0], o.Probes[1]
	if alloc.Shape != MarkAlloc || alloc.Cost != Emulated || alloc.Semaphore == 0 || free.Shape != MarkFree || free.Semaphore != 0 {
		t.Errorf("%+v\n%+v", alloc, free)
	}
	if want := [3]StaticArg{
		{Kind: ArgRegister, Size: 8, Base: 40}, {Kind: ArgMemory, Size: 4, Signed: true, Base: 152, Index: 80, Scaled: 3, Value: 8},
	}; alloc.Static != want {
		t.Errorf("arguments %+v, want %+v", alloc.Static, want)
	}
	if free.Static[0].Kind != ArgRelative || free.Static[0].Pending || free.Static[0].Value <= 0 {
		t.Errorf("the block is at %+v; the variable lies behind the code", free.Static[0])
	}
}

// Where a probe would do harm or tell nonsense, none of the file's is.
func TestMarksThatAreNot(t *testing.T) {
	good := note("otel_memory", "free", "8@%rdi", "0")
	for name, c := range map[string]struct{ source, reason string }{
		"no nop":       {strings.Replace(note("otel_memory", "alloc", "8@%rdi 8@%rsi", "0"), "990: nop", "990: push %rax", 1), "no nop"},
		"too few":      {note("otel_memory", "alloc", "8@%rdi", "0"), "1 arguments"},
		"no variable":  {note("otel_memory", "alloc", "8@%rdi 8@elsewhere(%rip)", "0"), "no one variable"},
		"no semaphore": {note("otel_memory", "alloc", "8@%rdi 8@%rsi", "_start"), "semaphore"},
	} {
		o := inspectMarks(t, markStart+good+c.source+"ret\n")
		said := ""
		for _, s := range o.Skipped {
			said += s.Name + ": " + s.Reason + "\n"
		}
		if len(o.Probes) != 0 || !strings.Contains(said, "otel_memory:alloc: ") || !strings.Contains(said, c.reason) || !strings.Contains(said, "otel_memory:free: ") {
			t.Errorf("%s: %d probes; %s", name, len(o.Probes), said)
		}
	}
}

func TestParseStaticArgs(t *testing.T) {
	for text, want := range map[string]StaticArg{
		"8@%rdi":               {Kind: ArgRegister, Size: 8, Base: 112},
		"-4@%eax":              {Kind: ArgRegister, Size: 4, Signed: true, Base: 80},
		"4@%r10d":              {Kind: ArgRegister, Size: 4, Base: 56},
		"2@%r8w":               {Kind: ArgRegister, Size: 2, Base: 72},
		"1@%sil":               {Kind: ArgRegister, Size: 1, Base: 104},
		"8@%rsp":               {Kind: ArgRegister, Size: 8, Base: 152},
		"8@8(%rsp)":            {Kind: ArgMemory, Size: 8, Base: 152, Value: 8},
		"8@-0x10(%rbp)":        {Kind: ArgMemory, Size: 8, Base: 32, Value: -16},
		"-4@(%rdx)":            {Kind: ArgMemory, Size: 4, Signed: true, Base: 96},
		"-4@$-1":               {Kind: ArgConstant, Size: 4, Signed: true, Value: -1},
		"8@16(%rsp,%rax,8)":    {Kind: ArgMemory, Size: 8, Base: 152, Index: 80, Scaled: 4, Value: 16},
		"4@(%r12,%r15)":        {Kind: ArgMemory, Size: 4, Base: 24, Index: 0, Scaled: 1},
		"8@counter(%rip)":      {Kind: ArgRelative, Size: 8, Pending: true},
		"2@counter.1-24(%rip)": {Kind: ArgRelative, Size: 2, Value: -24, Pending: true},
	} {
		if got, _, err := parseStaticArg(text, elf.EM_X86_64); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]StaticArg{
		"8@x1":        {Kind: ArgRegister, Size: 8, Base: 8},
		"-4@w0":       {Kind: ArgRegister, Size: 4, Signed: true},
		"8@x29":       {Kind: ArgRegister, Size: 8, Base: 232},
		"8@[sp,16]":   {Kind: ArgMemory, Size: 8, Base: 248, Value: 16},
		"8@[x3]":      {Kind: ArgMemory, Size: 8, Base: 24},
		"4@7":         {Kind: ArgConstant, Size: 4, Value: 7},
		"8@[x2,-256]": {Kind: ArgMemory, Size: 8, Base: 16, Value: -256},
	} {
		if got, _, err := parseStaticArg(text, elf.EM_AARCH64); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "8@", "3@%rdi", "8@%xmm0", "8@%rip", "8@(%eax)", "8@(%rax,%ebx,8)", "8@(%rax,%rsp)", "8@(%rax,%rbx,3)", "8@8(,%rbx,8)", "8@16(%rip)", "8@%r16", "8@%r", "x@%rdi",
		"8@99999999999(%rdi)", "8@(%rip)", "8@-(%rdi)", "8@%fs:16", "8@v+99999999999(%rip)", "8@" + strings.Repeat("v", 99) + "(%rip)"} {
		if got, _, err := parseStaticArg(text, elf.EM_X86_64); err == nil {
			t.Errorf("%q passes for %+v", text, got)
		}
	}
	for _, text := range []string{"8@x31", "8@[x1,x2]", "8@[x1,8]!", "8@q0", "8@%rdi", "8@[w1]"} {
		if got, _, err := parseStaticArg(text, elf.EM_AARCH64); err == nil {
			t.Errorf("%q passes for %+v on arm64", text, got)
		}
	}
}

// Whatever an argument says, it reads a register or memory near one.
func FuzzStaticArgs(f *testing.F) {
	for _, text := range []string{"8@%rdi", "-4@$12", "8@-16(%rbp)", "8@16(%rsp,%rax,8)", "8@sym+8(%rip)", "8@[sp, 16]", "-2@w7"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer costtest.Bound(t)()
		for machine, size := range map[elf.Machine]uint16{elf.EM_X86_64: 21 * 8, elf.EM_AARCH64: 34 * 8} {
			a, symbol, err := parseStaticArg(text, machine)
			if err != nil {
				if a != (StaticArg{}) || len(err.Error()) > 8*maxStaticArgText {
					t.Fatalf("%q: %+v with %d bytes of error", text, a, len(err.Error()))
				}
				continue
			}
			near := a.Value >= -1<<31 && a.Value < 1<<31
			if a.Kind == ArgNone || a.Base > size-8 || a.Index > size-8 || a.Scaled > 4 || a.Kind != ArgConstant && !near ||
				(a.Kind == ArgRelative) != a.Pending || a.Pending != (symbol != "") || a.Size == 0 || a.Size&(a.Size-1) != 0 || a.Size > 8 {
				t.Fatalf("%q on %v: %+v, symbol %q", text, machine, a, symbol)
			}
		}
	})
}

// A file's notes may be anything.
func FuzzStaticNotes(f *testing.F) {
	f.Add([]byte("\x08\x00\x00\x00\x1c\x00\x00\x00\x03\x00\x00\x00stapsdt\x00........................a\x00b\x00c\x00\x00"))
	f.Fuzz(func(t *testing.T, notes []byte) {
		defer costtest.Bound(t)()
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

// Of two variables of one name, nobody knows which is meant.
func TestVariablesOfOneName(t *testing.T) {
	im := &image{asked: asked{variables: map[string]bool{"one": true, "two": true}}}
	s := im.newSymbols()
	names := []byte("\x00one\x00two\x00")
	for _, v := range []struct {
		name  uint32
		value uint64
	}{{1, 0x10}, {1, 0x10}, {5, 0x20}, {5, 0x28}, {5, 0x20}} {
		s.addVariable(rawSymbol{name: v.name, info: byte(elf.STT_OBJECT), value: v.value}, names)
	}
	if s.variables["one"] != 0x10 || s.variables["two"] != 0 {
		t.Errorf("variables %v, want one at 0x10 and two at nowhere", s.variables)
	}
}
