//go:build amd64

package probe

import (
	"slices"
	"strings"
	"testing"
)

// function frames the code of a function in assembly.
func asmFunction(name, code string) string {
	return ".globl " + name + "\n.type " + name + ", @function\n" + name + ":\n" + code + "\n.size " + name + ", .-" + name + "\n"
}

// allocatorAsm is an allocator whose free releases by itself.
var allocatorAsm = asmFunction("malloc", "push %rbx\npop %rbx\nret") + asmFunction("free", "test %rdi,%rdi\nje 1f\nmov %rdi,(%rdi)\n1: ret")

// TestForwards: which forms of delete are probed, where some of them end in
// free, at once, later, on every path or on some.
func TestForwards(t *testing.T) {
	source := ".text\n" + allocatorAsm +
		asmFunction("mallctl", "ret") + // jemalloc's mark
		asmFunction("_ZdlPv", "jmp free@PLT") +
		asmFunction("_ZdaPv", "endbr64\njmp _ZdlPv@PLT") + // two jumps
		asmFunction("_ZdlPvm", "test %rdi,%rdi\nje 1f\nsub $8,%rsp\ncall free@PLT\nadd $8,%rsp\n1: ret") + // never otherwise
		asmFunction("_ZdaPvm", "test $4095,%edi\nje 1f\nmov %rdi,(%rsi)\nret\n1: jmp free@PLT") + // sometimes
		asmFunction("_ZdlPvRKSt9nothrow_t", "test %rdi,%rdi\nje other\njmp free@PLT") + // or elsewhere
		asmFunction("_ZdaPvRKSt9nothrow_t", "push %rdi\ncall other\npop %rdi\njmp free@PLT") + // work first
		asmFunction("_ZdlPvSt11align_val_t", "mov %rdi,(%rsi)\nret") + // by itself
		asmFunction("_ZdaPvSt11align_val_t", "jmp *free@GOTPCREL(%rip)") +
		asmFunction("_Znwm", "jmp malloc@PLT") +
		asmFunction("_Znam", "mov $1,%edi\njmp malloc@PLT") + // a return to be seen, but not the same arguments
		"other: ret\n"
	o := inspectFile(t, link(t, source, "-shared"))
	forward := map[string]string{}
	for _, p := range o.Probes {
		forward[p.Name] = p.MayForward
	}
	want := map[string]string{
		"malloc": "", "free": "", "_Znam": "", "_ZdlPvSt11align_val_t": "",
		"_ZdaPvm": "free", "_ZdlPvRKSt9nothrow_t": "free",
	}
	for name, to := range want {
		if got, ok := forward[name]; !ok || got != to {
			t.Errorf("%s: probed %v, MayForward %q; want probed, %q", name, ok, got, to)
		}
		delete(forward, name)
	}
	if len(forward) > 0 {
		t.Errorf("probed besides: %v", forward)
	}
	skipped := []Skip{
		{"_ZdaPv", "passes on to _ZdlPv"}, {"_ZdaPvRKSt9nothrow_t", "passes on to free"}, {"_ZdaPvSt11align_val_t", "passes on to free"},
		{"_ZdlPv", "passes on to free"}, {"_ZdlPvm", "passes on to free"}, {"_Znwm", "passes on to malloc"},
	}
	if !slices.Equal(o.Skipped, skipped) {
		t.Errorf("skipped %v\nwant %v", o.Skipped, skipped)
	}
}

// TestForwardsRoundAbout: two functions that jump to each other must not
// keep Inspect busy.
func TestForwardsRoundAbout(t *testing.T) {
	o := inspectFile(t, link(t, ".text\n"+allocatorAsm+asmFunction("cfree", "jmp dallocx")+asmFunction("dallocx", "jmp cfree")+
		asmFunction("mallctl", "ret"), "-shared", "-Wl,-Bsymbolic"))
	if _, ok := probeNamed(o, "free"); !ok {
		t.Errorf("free is not probed: %+v", o)
	}
}

// TestColdPartJumpsBack: a part of the function that the compiler moved away
// jumps back to the instruction that would have been chosen.
func TestColdPartJumpsBack(t *testing.T) {
	source := ".text\n" + asmFunction("malloc", "push %rbx\npop %rbx\nret") +
		asmFunction("free", "test %rdi,%rdi\nback: push %rbx\npop %rbx\nje cold\nret") +
		".skip 4096\ncold: jmp back\n"
	p, ok := probeNamed(inspectFile(t, link(t, source, "-shared")), "free")
	if !ok || p.Offset != p.Entry || p.Cost != Stepped {
		t.Errorf("free: %+v, want the entry", p)
	}
}

// TestOwnFunctions: which definitions count.
func TestOwnFunctions(t *testing.T) {
	// Static functions of these names are nobody's allocator.
	local := ".text\nmalloc: ret\n.type malloc,@function\n.size malloc,1\nfree: ret\n.type free,@function\n.size free,1\n"
	if o := inspectFile(t, link(t, local+asmFunction("_start", "ret"), "-static")); len(o.Probes) != 0 {
		t.Errorf("static functions: %+v, want none", o.Probes)
	}
	// In a static program the full symbol table counts, hidden or not.
	hidden := ".text\n" + allocatorAsm + ".hidden malloc\n.hidden free\n" + asmFunction("_start", "ret")
	o := inspectFile(t, link(t, hidden, "-static"))
	if !o.Static || len(o.Probes) != 2 {
		t.Errorf("static program: static %v, %+v, want malloc and free", o.Static, o.Probes)
	}
	// glibc's static-pie programs have malloc as a local symbol, and beside it
	// its own name for it.
	alias := local + ".set __libc_malloc, malloc\n.set __libc_free, free\n.type __libc_malloc,@function\n.type __libc_free,@function\n"
	if o := inspectFile(t, link(t, alias+asmFunction("_start", "ret"), "-static")); len(o.Probes) != 2 {
		t.Errorf("local functions with aliases: %+v, want malloc and free", o.Probes)
	}
	elsewhere := strings.NewReplacer("__libc_malloc, malloc", "__libc_malloc, free").Replace(alias)
	if o := inspectFile(t, link(t, elsewhere+asmFunction("_start", "ret"), "-static")); len(o.Probes) != 0 {
		t.Errorf("local functions whose aliases are others: %+v, want none", o.Probes)
	}
	// In a library only what it exports counts.
	if o := inspectFile(t, link(t, hidden, "-shared")); len(o.Probes) != 0 {
		t.Errorf("library with hidden functions: %+v, want none", o.Probes)
	}
	// The dynamic loader's are its own.
	if o := inspectFile(t, link(t, ".text\n"+allocatorAsm, "-shared", "-Wl,-soname,ld-linux-x86-64.so.2")); len(o.Probes) != 0 {
		t.Errorf("dynamic loader: %+v, want none", o.Probes)
	}
	// Indirect functions have no code address.
	indirect := ".text\n" + allocatorAsm + ".globl calloc\n.type calloc, @gnu_indirect_function\ncalloc: ret\n.size calloc,1\n"
	o = inspectFile(t, link(t, indirect, "-shared"))
	if len(o.Probes) != 2 || len(o.Skipped) != 1 || o.Skipped[0].Name != "calloc" {
		t.Errorf("indirect calloc: %+v, skipped %v", o.Probes, o.Skipped)
	}
}

// TestUnsure: where nobody knows what leads where, the entry is probed.
func TestUnsure(t *testing.T) {
	for name, free := range map[string]string{
		"no size":    ".globl free\n.type free,@function\nfree: test %rdi,%rdi\nje 1f\n1: ret\n",
		"jump table": asmFunction("free", "test %rdi,%rdi\nje 1f\nlea table(%rip),%rdx\nmovslq (%rdx,%rax,4),%rax\nadd %rdx,%rax\njmp *%rax\n1: ret"),
		"bad code":   asmFunction("free", "test %rdi,%rdi\nje 1f\n1: ret\n.byte 0x06"), // no instruction in 64-bit mode
	} {
		source := ".text\n" + asmFunction("malloc", "push %rbx\npop %rbx\nret") + free + ".section .rodata\ntable: .long 0\n"
		p, _ := probeNamed(inspectFile(t, link(t, source, "-shared")), "free")
		if p.Entry == 0 || p.Offset != p.Entry || p.Cost != Stepped || p.Instruction != "test %rdi,%rdi" {
			t.Errorf("%s: %+v, want the entry", name, p)
		}
	}
}

// TestBundledInPart: of a jemalloc in a Rust program the linker keeps what is called.
func TestBundledInPart(t *testing.T) {
	local := func(name string) string {
		return name + ":\n.type " + name + ",@function\npush %rbx\npop %rbx\nret\n.size " + name + ",.-" + name + "\n"
	}
	got := local("_rjem_malloc") + local("_rjem_mallocx")
	for name, source := range map[string]string{
		"sdallocx": got + local("_rjem_sdallocx"), "dallocx": got + local("_rjem_dallocx"), "mallocx alone": local("_rjem_mallocx") + local("_rjem_sdallocx"),
	} {
		o := inspectFile(t, link(t, ".text\n"+source+asmFunction("_start", "ret"), "-static"))
		if want := strings.Count(source, ",@function"); o.Family != Jemalloc || len(o.Probes) != want {
			t.Errorf("%s: %d functions of %q, want %d of jemalloc", name, len(o.Probes), o.Family, want)
		}
	}
	if o := inspectFile(t, link(t, ".text\n"+got+asmFunction("_start", "ret"), "-static")); len(o.Probes) > 0 {
		t.Errorf("an allocator that releases nothing has probes: %+v", o.Probes)
	}
}

// TestBundled: an allocator under prefixed names beside the C library's.
func TestBundled(t *testing.T) {
	local := func(name, code string) string {
		return name + ":\n.type " + name + ",@function\n" + code + "\n.size " + name + ",.-" + name + "\n"
	}
	jemalloc := local("_rjem_malloc", "push %rbx\npop %rbx\nret") + local("_rjem_free", "test %rdi,%rdi\nje 1f\n1: ret") +
		local("_rjem_sdallocx", "push %rbx\npop %rbx\nret") + local("_rjem_mallctl", "ret") +
		local("mi_malloc", "ret") + local("je_free", "ret") + asmFunction("sdallocx", "ret") + asmFunction("_start", "ret")
	names := func(o Object) (out []string) {
		for _, p := range o.Probes {
			out = append(out, p.Name)
		}
		slices.Sort(out)
		return out
	}
	want := []string{"_rjem_free", "_rjem_malloc", "_rjem_sdallocx"}
	o := inspectFile(t, link(t, ".text\n"+jemalloc, "-static"))
	if got := names(o); !slices.Equal(got, want) || o.Family != Jemalloc {
		t.Errorf("prefixed alone: %v of %v, want %v", got, o.Family, want)
	}
	o = inspectFile(t, link(t, ".text\n"+jemalloc+allocatorAsm, "-static"))
	if got := names(o); !slices.Equal(got, append(slices.Clone(want), "free", "malloc")) {
		t.Errorf("prefixed beside the C library's: %v", got)
	}
	for _, p := range o.Probes {
		if prefix := strings.HasPrefix(p.Name, "_rjem_"); prefix != (p.Family == Jemalloc) {
			t.Errorf("%s is said to be %v's", p.Name, p.Family)
		}
	}
	if got := names(inspectFile(t, link(t, ".text\n"+jemalloc, "-shared"))); !slices.Equal(got, want) {
		t.Errorf("local functions of a library: %v, want %v", got, want)
	}
}
