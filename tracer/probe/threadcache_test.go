//go:build amd64

package probe

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestThreadCacheOfLibc has a slot of this system's C library that readelf calls
// the offset of a thread's variable; malloc has one, and calloc has from glibc 2.41 on.
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
		known := p.Cache != ThreadCache{}
		if p.Name == "malloc" && !known || known && p.Name != "malloc" && p.Name != "calloc" {
			t.Errorf("%s: cache %+v", p.Name, p.Cache)
		}
		if known && !slots[p.Offset+delta+uint64(p.Cache.Slot)] {
			t.Errorf("%s: no slot at %d from %#x, of %v", p.Name, p.Cache.Slot, p.Offset+delta, slots)
		}
	}
}

// cacheTail is what the test's mallocs share.
const cacheTail = `
slow:
	call other
	pop %rbp
	ret
	.size malloc, . - malloc
	.type free, @function
free:
	ret
	.size free, . - free
	.type VERSION, @function
VERSION:
other:
	ret
	.size VERSION, . - VERSION
	.section .tbss,"awT",@nobits
	.globl cache, wanted
	.type cache, @object
	.type wanted, @object
	.size cache, 8
	.size wanted, 8
cache:	.zero 8
wanted:	.zero 8
	.bss
classes: .zero 1024
`

const cacheHead = `
	.globl malloc, free, VERSION
	.type malloc, @function
malloc:
	push %rbp
`

// The mallocs of four allocators as compilers make them, with what the cases differ in.
const (
	tcacheCode = `
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
`
	listsCode = `
	mov wanted@gottpoff(%rip), %rax
	mov %fs:(%rax), %r8
	cmp $0x400, %rdi
	BRANCH slow
	ROUND
	lea classes(%rip), %rax
	movzbl (%rax,%rdi,1), %esi
	mov %rsi, %rax
	shl $5, %rax
	add %r8, %rax
	CONDITION
	mov 16(%rax), %r9
	test %r9, %r9
	je slow
	mov (%r9), %rdx
	mov %rdx, 16(%rax)
	mov %r9, %rax
	pop %rbp
	ret
`
	stacksCode = `
	cmp $0x1001, %rdi
	jae slow
	lea classes(%rip), %rdx
	lea 7(%rdi), %rax
	mov wanted@gottpoff(%rip), %rcx
	shr $3, %rax
	movzbl (%rdx,%rax,1), %esi
	mov %fs:0x338(%rcx), %rdx
	cmp %fs:THRESHOLD(%rcx), %rdx
	jae slow
	mov %fs:0, %r9
	lea (%rsi,%rsi,2), %r10
	lea (%r9,%r10,8), %rax
	add %rcx, %rax
	CONDITION
	mov 0x360(%rax), %r8
	mov (%r8), %r11
	lea 8(%r8), %r10
	cmp 0x370(%rax), %r8w
	je low
	mov %r10, 0x360(%rax)
done:
	mov %r11, %rax
	pop %rbp
	ret
low:
	cmp EMPTY(%rax), %r8w
	je slow
	mov %r10, 0x360(%rax)
	jmp done
`
	pagesCode = `
	mov wanted@gottpoff(%rip), %rax
	mov %rdi, %rsi
	mov %fs:(%rax), %rdi
	CONDITION
	cmp LIMIT, %rsi
	ja slow
	lea 7(%rsi), %rax
	shr $3, %rax
	mov 0x68(%rdi,%rax,SCALE), %rax
	mov 24(%rax), %rdx
	test %rdx, %rdx
	je slow
	mov (%rdx), %rcx
	mov %rcx, 24(%rax)
	mov %rdx, %rax
	pop %rbp
	ret
`
)

// cacheOf returns what is found out about a malloc, without distances, and whether there is a table of classes.
func cacheOf(t *testing.T, code, version string, replacements ...string) (c ThreadCache, hasTable bool) {
	t.Helper()
	r := strings.NewReplacer(append(replacements, "VERSION", version)...)
	path := link(t, r.Replace(cacheHead+code+cacheTail), "-shared")
	p, ok := probeNamed(inspectFile(t, path), "malloc")
	if !ok {
		t.Fatal("no malloc was found")
	}
	at := p.Offset + textDelta(t, path)
	c = p.Cache
	slot, table, hasTable := at+uint64(c.Slot), at+uint64(c.Table), c.Table != 0
	if (c.Slot == 0) != (c.Layout == NoCache) {
		t.Errorf("slot at %d: %+v", c.Slot, c)
	}
	if c.Layout != NoCache && !strings.Contains(run(t, "readelf", "-rW", path), fmt.Sprintf("%016x", slot)) {
		t.Errorf("readelf shows no relocation at %#x", slot)
	}
	if hasTable && !strings.Contains(run(t, "nm", path), fmt.Sprintf("%016x b classes", table)) {
		t.Errorf("nm shows no table at %#x", table)
	}
	c.Slot, c.Table = 0, 0
	return c, hasTable
}

func TestTcacheLayouts(t *testing.T) {
	const slot = "cache@gottpoff"
	count, head, put := "movzwl (%rdx,%rax,2), %ecx", "mov 0x80(%rdx,%rax,8), %rsi", "mov %cx, (%rdx,%rax,2)"
	for _, c := range []struct {
		name, slot, count, load, store string
		want                           ThreadCache
	}{
		{"counted", slot, count, head, put, ThreadCache{Layout: CacheCounted, First: 0x80, Stride: 8}},
		{"counted, by another register", slot, count, "lea 0x10(%rax), %rdi\n\tmov (%rdx,%rdi,8), %rsi", put, ThreadCache{Layout: CacheCounted, First: 0x80, Stride: 8}},
		{"uncounted", slot, "nop", "lea 0x12(%rax), %rsi\n\tmov 8(%rdx,%rsi,8), %rsi", "addw $1, (%rdx,%rax,2)", ThreadCache{Layout: CacheUncounted, First: 0x98, Stride: 8}},
		{"another layout", slot, count, "mov 0x40(%rdx,%rax,8), %rsi", put, ThreadCache{}},
		{"uncounted, laid out as counted", slot, "nop", head, put, ThreadCache{}},
		{"counts of bytes", slot, "movzbl (%rdx,%rax,1), %ecx", head, "nop", ThreadCache{}},
		{"counts by another index", slot, "movzwl (%rdx,%rdi,2), %ecx", head, put, ThreadCache{}},
		{"index changed in between", slot, count + "\n\tadd $1, %rax", head, put, ThreadCache{}},
		{"cache overwritten", slot, count + "\n\tmov %rdi, %rdx", head, put, ThreadCache{}},
		{"no variable of a thread's", "other", count, head, put, ThreadCache{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := cacheOf(t, tcacheCode, "gnu_get_libc_version", "SLOT", c.slot, "COUNT", c.count, "LOAD", c.load, "STORE", c.store)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestCacheLayouts(t *testing.T) {
	lists := ThreadCache{Layout: CacheLists, First: 16, Stride: 32, Limit: 1024}
	metered := lists
	metered.Budget = 0x1008
	stacks := ThreadCache{Layout: CacheStacks, First: 0x360, Stride: 24, Limit: 4096}
	pages := ThreadCache{Layout: CachePages, First: 0x68, Stride: 8, Head: 24, Limit: 1024}
	const round, by16 = "add $7, %edi; shr $3, %edi", "add $15, %edi; shr $4, %edi"
	for _, c := range []struct {
		name, code   string
		replacements []string
		want         ThreadCache
	}{
		{"lists", listsCode, []string{"BRANCH", "ja", "ROUND", round, "CONDITION", "nop"}, lists},
		{"lists, sampled", listsCode, []string{"BRANCH", "ja", "ROUND", round, "CONDITION", "sub %rsi, 0x1008(%r8)"}, metered},
		{"lists, sampled twice", listsCode, []string{"BRANCH", "ja", "ROUND", round, "CONDITION", "sub %rsi, 0x1008(%r8); sub %rsi, 0x1010(%r8)"}, ThreadCache{}},
		{"lists, a flag", listsCode, []string{"BRANCH", "ja", "ROUND", round, "CONDITION", "cmpl $0, 0x1008(%r8); jne slow"}, ThreadCache{}},
		{"lists, by 16 bytes", listsCode, []string{"BRANCH", "ja", "ROUND", by16, "CONDITION", "nop"}, ThreadCache{}},
		{"lists, larger blocks", listsCode, []string{"BRANCH", "jb", "ROUND", round, "CONDITION", "nop"}, ThreadCache{}},
		{"lists, of another thread", listsCode, []string{"BRANCH", "ja", "ROUND", round, "CONDITION", "mov 8(%rax), %rax"}, ThreadCache{}},
		{"stacks", stacksCode, []string{"THRESHOLD", "0x340", "CONDITION", "nop", "EMPTY", "0x374"}, stacks},
		{"stacks, another layout", stacksCode, []string{"THRESHOLD", "0x340", "CONDITION", "nop", "EMPTY", "0x376"}, ThreadCache{}},
		{"stacks, another threshold", stacksCode, []string{"THRESHOLD", "0x350", "CONDITION", "nop", "EMPTY", "0x374"}, ThreadCache{}},
		{"stacks, a flag", stacksCode, []string{"THRESHOLD", "0x340", "CONDITION", "cmpb $0, %fs:0x10(%rcx); jne slow", "EMPTY", "0x374"}, ThreadCache{}},
		{"stacks, overwritten", stacksCode, []string{"THRESHOLD", "0x340", "CONDITION", "mov %rdi, %rax", "EMPTY", "0x374"}, ThreadCache{}},
		{"pages", pagesCode, []string{"LIMIT", "$0x400", "SCALE", "8", "CONDITION", "nop"}, pages},
		{"pages, of 4 bytes", pagesCode, []string{"LIMIT", "$0x400", "SCALE", "4", "CONDITION", "nop"}, ThreadCache{}},
		{"pages, no limit", pagesCode, []string{"LIMIT", "%r10", "SCALE", "8", "CONDITION", "nop"}, ThreadCache{}},
		{"pages, a flag", pagesCode, []string{"LIMIT", "$0x400", "SCALE", "8", "CONDITION", "cmpb $0, 8(%rdi); jne slow"}, ThreadCache{}},
		{"pages, size changed", pagesCode, []string{"LIMIT", "$0x400", "SCALE", "8", "CONDITION", "and $-16, %rsi"}, ThreadCache{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, hasTable := cacheOf(t, c.code, "some_version", c.replacements...)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if hasTable != (got.Layout == CacheLists || got.Layout == CacheStacks) {
				t.Errorf("a table: %t", hasTable)
			}
		})
	}
}
