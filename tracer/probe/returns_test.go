//go:build amd64

package probe

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// returnsSource are functions that return in various ways. The labels that begin with ret name the
// instructions at which they do.
const returnsSource = functionMacros + `
fn twice
	test %rdi,%rdi
	je 1f
ret_twice_a: ret
1:	xor %eax,%eax
ret_twice_b: rep ret
end twice
fn jumps_on
	cmp $100,%rdi
	ja slow
ret_jumps_on: ret
end jumps_on
.type slow, @function
slow:
.cfi_startproc
	call helper
	test %rax,%rax
	jne ret_slow
	jmp back
ret_slow: ret $8
.cfi_endproc
.type back, @function
back:
.cfi_startproc
ret_back: ret
.cfi_endproc
.type helper, @function
helper:
.cfi_startproc
	ret
.cfi_endproc
fn never_back
	test %rdi,%rdi
	je 1f
ret_never_back: ret
1:	call helper
end never_back
fn to_malloc
	add $16,%rdi
	jmp malloc@plt
end to_malloc
fn to_foreign
	jmp foreign@plt
end to_foreign
fn to_pointer
	mov hook(%rip),%rax
	jmp *%rax
end to_pointer
fn switches
	lea table(%rip),%rdx
	movslq (%rdx,%rdi,4),%rax
	add %rdx,%rax
	jmp *%rax
1:	mov $1,%eax
ret_switches_a: ret
2:	mov $2,%eax
ret_switches_b: ret
end switches
fn mixed
	cmp $9,%edi
	ja 3f
	lea mixed_table(%rip),%rdx
	movslq (%rdx,%rdi,4),%rax
	add %rdx,%rax
	jmp *%rax
first_of_mixed: mov $1,%eax
	ret
second_of_mixed: mov $2,%eax
	ret
3:	mov hook(%rip),%rax
	jmp *%rax
end mixed
fn relative
	mov (%rdi),%rdx
	movslq 8(%rdx),%rax
	add %rdx,%rax
	jmp *%rax
end relative
fn handlers
	lea hook(%rip),%rax
	jmp *(%rax,%rdi,8)
end handlers
fn into_data
	jmp 1f
	.byte 0x48,0xb8
1:	ret
	.byte 0,0,0,0,0,0,0
end into_data
.globl bare
.type bare, @function
bare:
	ret
.section .rodata
table: .long 1b - table, 2b - table
mixed_table: .long first_of_mixed - mixed_table, second_of_mixed - mixed_table
.data
hook: .quad 0
`

// TestReturns has the instructions found at which functions return, as their labels say, or a reason why that can't be.
func TestReturns(t *testing.T) {
	for name, flag := range map[string]string{
		"with a table of .eh_frame": "-Wl,--eh-frame-hdr",
		"without":                   "-Wl,--no-eh-frame-hdr", // as GCC links static programs
	} {
		t.Run(name, func(t *testing.T) { testReturns(t, flag) })
	}
}

func testReturns(t *testing.T, flag string) {
	file := link(t, returnsSource, "-shared", "-Wl,--no-undefined-version", flag)
	labels := map[string][]uint64{}
	for line := range strings.Lines(run(t, "nm", file)) {
		var addr uint64
		var kind, name string
		if _, err := fmt.Sscanf(line, "%x %s %s", &addr, &kind, &name); err == nil && strings.HasPrefix(name, "ret_") {
			labels[name] = append(labels[name], addr)
		}
	}
	for name, want := range map[string]struct {
		labels []string
		reason string
	}{
		"twice":      {labels: []string{"ret_twice_a", "ret_twice_b"}},
		"jumps_on":   {labels: []string{"ret_jumps_on", "ret_slow", "ret_back"}},
		"never_back": {labels: []string{"ret_never_back"}},
		"to_malloc":  {},
		"to_foreign": {reason: "foreign of another file"},
		"to_pointer": {reason: "through a pointer"},
		"switches":   {labels: []string{"ret_switches_a", "ret_switches_b"}},
		"mixed":      {reason: "through a pointer"},
		"relative":   {reason: "through a pointer"},
		"handlers":   {reason: "through a pointer"},
		"into_data":  {reason: "into the midst of an instruction"},
		"bare":       {reason: "ends isn't known"},
	} {
		o := inspectUser(t, file, allocFunction(t, name))
		p, found := probeNamed(o, name)
		if !found {
			if want.reason == "" || len(o.Skipped) != 1 || !strings.Contains(o.Skipped[0].Reason, want.reason) {
				t.Errorf("%s is left out: %+v, want %q", name, o.Skipped, want.reason)
			}
			continue
		}
		var places []uint64 // addresses in the file are offsets: its first segment begins at both
		for _, label := range want.labels {
			places = append(places, labels[label]...)
		}
		slices.Sort(places)
		if want.reason != "" || !p.KeepsReturn || !slices.Equal(p.Returns, places) || len(places) != len(want.labels) {
			t.Errorf("%s returns at %#x, want %#x (%s)", name, p.Returns, places, want.reason)
		}
	}
}

// addressTables has jumps through tables of addresses, which lie where the linker says.
const addressTables = functionMacros + `
fn of_its_own
	jmp *own(,%rdi,8)
1:	mov $1,%eax
ret_own_a: ret
2:	mov $2,%eax
ret_own_b: ret
end of_its_own
fn loaded
	mov inner(,%rdi,8),%rax
	jmp *%rax
1:	mov $1,%eax
ret_loaded: ret
end loaded
fn of_others
	jmp *others(,%rdi,8)
end of_others
fn computed
	lea ret_computed(%rip),%rcx
	test %rdi,%rdi
	je 1f
	nop
1:	mov %rcx,%rax
	jmp *%rax
ret_computed: ret
end computed
.section .rodata
own: .quad ret_own_a - 5, ret_own_b - 5
inner: .quad ret_loaded - 5
others: .quad of_its_own, loaded, of_its_own, loaded, of_others
`

// TestJumpTables has a table of a function's own places told from one of other functions.
func TestJumpTables(t *testing.T) {
	file := link(t, addressTables, "-static", "-no-pie", "-Wl,-e,0")
	for name, labels := range map[string][]string{
		"of_its_own": {"ret_own_a", "ret_own_b"}, "loaded": {"ret_loaded"}, "computed": {"ret_computed"}, "of_others": nil,
	} {
		o := inspectUser(t, file, allocFunction(t, name))
		p, found := probeNamed(o, name)
		if found != (labels != nil) {
			t.Errorf("%s is probed: %v; left out %+v", name, found, o.Skipped)
		}
		if want := placesOf(t, file, labels); found && (!slices.Equal(p.Returns, want) || len(want) != len(labels)) {
			t.Errorf("%s returns at %#x, want %#x", name, p.Returns, want)
		}
	}
}

// placesOf are the offsets in a file of labels in its code, ascending.
func placesOf(t *testing.T, file string, labels []string) (places []uint64) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if slices.Contains(labels, s.Name) {
			code := f.Sections[s.Section]
			places = append(places, s.Value-code.Addr+code.Offset)
		}
	}
	slices.Sort(places)
	return places
}

// functionMacros begin and end functions.
const functionMacros = `
.macro fn name
.globl \name
.type \name, @function
\name:
.cfi_startproc
.endm
.macro end name
.cfi_endproc
.size \name, . - \name
.endm
.text
`

// ownNew is an allocator whose operator new returns nobody knows where: it jumps on to another file's function.
const ownNew = functionMacros + `
fn malloc
	push %rbx
	pop %rbx
	ret
end malloc
fn free
	push %rbx
	pop %rbx
	ret
end free
fn _Znwm
	push %rbx
	pop %rbx
	jmp foreign@plt
end _Znwm
`

// TestReplacedReturns has an operator new whose returns can't be found left out, unless its return address may be
// replaced. What the user names keeps its own all the same.
func TestReplacedReturns(t *testing.T) {
	file := link(t, ownNew, "-shared")
	users := []UserFunction{allocFunction(t, "_Znwm")}
	for name, c := range map[string]struct {
		choice Choice
		probed bool
	}{
		"kept":            {Choice{}, false},
		"replaced":        {Choice{ReplaceReturns: true}, true},
		"named by a user": {Choice{ReplaceReturns: true, Functions: users}, false},
	} {
		o := inspectBy(t, file, c.choice)
		p, probed := probeNamed(o, "_Znwm")
		if probed != c.probed || probed && (p.KeepsReturn || !p.Throws) || (len(o.Unseen) == 0) != c.probed {
			t.Errorf("%s: operator new is probed: %v, %+v; left out %+v", name, probed, p, o.Unseen)
		}
		if m, _ := probeNamed(o, "malloc"); m.Name == "" || m.KeepsReturn {
			t.Errorf("%s: malloc is probed by %+v", name, m)
		}
	}
}

// handing is an allocator, and functions of another name that jump on to it, or to what serves another file.
const handing = functionMacros + `
fn malloc
	push %rbx
	pop %rbx
	ret
end malloc
fn free
	push %rbx
	pop %rbx
	ret
end free
fn je_malloc
	push %rbx
	pop %rbx
	ret
end je_malloc
fn je_free
	push %rbx
	pop %rbx
	ret
end je_free
fn give
	add $16,%rdi
	jmp free
end give
fn give_by_hook
	mov hook(%rip),%rax
	jmp *%rax
end give_by_hook
fn give_itself
	ret
end give_itself
fn take
	add $16,%rdi
	jmp malloc
end take
fn take_je
	add $16,%rdi
	jmp je_malloc
end take_je
fn take_elsewhere
	jmp calloc@plt
end take_elsewhere
.data
hook: .quad 0
`

// TestFunctionsThatHandOn has functions left out that return by another function's return where that one is left alone,
// and those marked whose return isn't seen.
func TestFunctionsThatHandOn(t *testing.T) {
	file := link(t, handing, "-shared", "-Wl,-Bsymbolic")
	var functions []UserFunction
	for _, name := range []string{"take", "take_je", "take_elsewhere"} {
		functions = append(functions, allocFunction(t, name))
	}
	for _, name := range []string{"give", "give_by_hook", "give_itself"} {
		f, err := ParseFreeFunction(name + ":ptr=0")
		if err != nil {
			t.Fatal(err)
		}
		functions = append(functions, f)
	}
	alone, err := Layer("otel_memory")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		choice Choice
		left   []string
	}{
		"all":        {Choice{Functions: functions}, nil},
		"its family": {Choice{Functions: functions, Family: Jemalloc}, []string{"take"}},
		"another":    {Choice{Functions: functions, Family: Tcmalloc}, []string{"take", "take_je"}},
		"a layer":    {Choice{Functions: slices.Concat(functions, alone)}, []string{"take", "take_elsewhere", "take_je"}},
	} {
		o := inspectBy(t, file, c.choice)
		c.choice.restrict(&o)
		var left []string
		for _, f := range o.Unseen {
			left = append(left, f.Name)
			if _, probed := probeNamed(o, f.Name); probed || !strings.Contains(f.Reason, "left alone") {
				t.Errorf("%s: %s is probed: %v; %q", name, f.Name, probed, f.Reason)
			}
		}
		slices.Sort(left)
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: left out %q, want %q", name, left, c.left)
		}
		for give, open := range map[string]bool{"give": true, "give_by_hook": true, "give_itself": false} {
			if p, probed := probeNamed(o, give); !probed || p.OpenEnded != open {
				t.Errorf("%s: %s is probed: %v, open-ended: %v, want %v", name, give, probed, p.OpenEnded, open)
			}
		}
	}
}

// allocFunction is a function whose first argument is a size.
func allocFunction(t *testing.T, name string) UserFunction {
	t.Helper()
	f, err := ParseAllocFunction(name + ":size=0")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func inspectUser(t *testing.T, file string, f UserFunction) Object {
	t.Helper()
	return inspectBy(t, file, Choice{Functions: []UserFunction{f}})
}

func inspectBy(t *testing.T, file string, choice Choice) Object {
	t.Helper()
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o, err := inspectAt(r, locator{path: file}, choice)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestStepsARM64 has instructions told apart that the search for returns goes by (Arm Architecture Reference Manual, C4.1).
func TestStepsARM64(t *testing.T) {
	const at = 0x10000
	for word, want := range map[uint32]step{
		0xd65f03c0: {size: 4, returns: true},              // ret
		0xd65f0bff: {size: 4, returns: true},              // retaa
		0xd61f0200: {size: 4, ends: true, pointer: true},  // br x16
		0xd71f0a11: {size: 4, ends: true, pointer: true},  // braa x16, x17
		0xd63f0000: {size: 4, calls: true},                // blr x0
		0x94000002: {size: 4, calls: true},                // bl +8
		0x17ffffff: {size: 4, ends: true, target: at - 4}, // b -4
		0x54000040: {size: 4, target: at + 8},             // b.eq +8
		0xb5ffffe0: {size: 4, target: at - 4},             // cbnz x0, -4
		0x3707ffe1: {size: 4, target: at - 4},             // tbnz w1, #0, -4
		0xd4200000: {size: 4, ends: true},                 // brk
		0xa9bf7bfd: {size: 4, saves: inRecord},            // stp x29, x30, [sp, #-16]!
	} {
		if got := stepARM64(word, at); got != want {
			t.Errorf("%#x: got %+v, want %+v", word, got, want)
		}
	}
}
