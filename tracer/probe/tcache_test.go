//go:build amd64

package probe

import (
	"regexp"
	"strings"
	"testing"
)

// TestThreadCacheOfLibc has a slot of this system's C library that readelf calls
// the offset of a thread's variable, and malloc alone has one.
func TestThreadCacheOfLibc(t *testing.T) {
	path := libcPath(t)
	o := inspectFile(t, path)
	slots := map[uint64]bool{}
	for _, line := range regexp.MustCompile(`(?m)^(\w+) .*R_X86_64_TPOFF64 `).FindAllStringSubmatch(run(t, "readelf", "-rW", path), -1) {
		slots[parseHex(t, strings.TrimLeft(line[1], "0"))] = true
	}
	if len(slots) < 2 {
		t.Fatalf("readelf shows %d such relocations", len(slots))
	}
	delta := textDelta(t, path)
	for _, p := range o.Probes {
		if (p.Cache != ThreadCache{}) != (p.Name == "malloc") {
			t.Errorf("%s: cache %+v", p.Name, p.Cache)
		}
		if p.Name == "malloc" && !slots[p.Offset+delta+uint64(p.Cache.Slot)] {
			t.Errorf("malloc: no slot at %d from %#x, of %v", p.Cache.Slot, p.Offset+delta, slots)
		}
	}
}

// cacheCode is a malloc as compilers make it, with what the cases differ in.
const cacheCode = `
	.globl malloc, free, gnu_get_libc_version
	.type malloc, @function
malloc:
	push %rbp
	lea 0x17(%rdi), %rax
	shr $4, %rax
	mov SLOT(%rip), %rcx
	mov %fs:(%rcx), %rdx
	test %rdx, %rdx
	je slow
	COUNT
	test %cx, %cx
	je slow
	LOAD
	STORE
	pop %rbp
	ret
slow:
	call other
	pop %rbp
	ret
	.size malloc, . - malloc
	.type free, @function
free:
	ret
	.size free, . - free
	.type gnu_get_libc_version, @function
gnu_get_libc_version:
other:
	ret
	.size gnu_get_libc_version, . - gnu_get_libc_version
	.section .tbss,"awT",@nobits
	.globl cache
	.type cache, @object
	.size cache, 8
cache:	.zero 8
`

func TestThreadCacheLayouts(t *testing.T) {
	const slot = "cache@gottpoff"
	count, head, put := "movzwl (%rdx,%rax,2), %ecx", "mov 0x80(%rdx,%rax,8), %rsi", "mov %cx, (%rdx,%rax,2)"
	for _, c := range []struct {
		name, slot, count, load, store string
		want                           ThreadCache
	}{
		{"counted", slot, count, head, put, ThreadCache{Entries: 0x80, Counted: true}},
		{"counted, by another register", slot, count, "lea 0x10(%rax), %rdi\n\tmov (%rdx,%rdi,8), %rsi", put, ThreadCache{Entries: 0x80, Counted: true}},
		{"uncounted", slot, "nop", "lea 0x12(%rax), %rsi\n\tmov 8(%rdx,%rsi,8), %rsi", "addw $1, (%rdx,%rax,2)", ThreadCache{Entries: 0x98}},
		{"another layout", slot, count, "mov 0x40(%rdx,%rax,8), %rsi", put, ThreadCache{}},
		{"uncounted, laid out as counted", slot, "nop", head, put, ThreadCache{}},
		{"counts of bytes", slot, "movzbl (%rdx,%rax,1), %ecx", head, "nop", ThreadCache{}},
		{"counts by another index", slot, "movzwl (%rdx,%rdi,2), %ecx", head, put, ThreadCache{}},
		{"index changed in between", slot, count + "\n\tadd $1, %rax", head, put, ThreadCache{}},
		{"cache overwritten", slot, count + "\n\tmov %rdi, %rdx", head, put, ThreadCache{}},
		{"no variable of a thread's", "other", count, head, put, ThreadCache{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := strings.NewReplacer("SLOT", c.slot, "COUNT", c.count, "LOAD", c.load, "STORE", c.store).Replace(cacheCode)
			o := inspectFile(t, link(t, source, "-shared"))
			p, ok := probeNamed(o, "malloc")
			if !ok {
				t.Fatalf("no malloc among %+v, skipped %+v", o.Probes, o.Skipped)
			}
			if (p.Cache.Slot != 0) != (c.want != ThreadCache{}) {
				t.Errorf("slot at %d", p.Cache.Slot)
			}
			p.Cache.Slot = 0
			if p.Cache != c.want {
				t.Errorf("got %+v, want %+v", p.Cache, c.want)
			}
		})
	}
}
