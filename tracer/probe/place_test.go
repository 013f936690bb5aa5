package probe

import (
	"encoding/hex"
	"strings"
	"testing"
)

// place is what the placement rule says of a function.
type place struct {
	off   uint64
	args  [3]Reg
	grown uint32
	cost  Cost
}

// placements are hand-assembled functions. The expected offsets were counted
// by hand from the bytes given.
var placements = []struct {
	name, function, code string
	want                 place
}{
	{"entry is a push", "malloc", "53 48 89 fb 5b c3", // push %rbx
		place{0, [3]Reg{RegRDI}, 0, Emulated}},
	{"entry is a nop", "malloc", "90 c3",
		place{0, [3]Reg{RegRDI}, 0, Emulated}},
	{"entry is a two-byte nop", "malloc", "66 90 c3",
		place{0, [3]Reg{RegRDI}, 0, Emulated}},
	{"long nop is stepped on old kernels", "malloc", "0f 1f 40 00 90 c3", // nopl 0(%rax); nop
		place{4, [3]Reg{RegRDI}, 0, Emulated}},
	{"pause is no nop", "malloc", "f3 90 90 c3",
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"xchg %r8d,%eax is no nop", "malloc", "41 90 90 c3", // writes rax and r8, neither an argument
		place{2, [3]Reg{RegRDI}, 0, Emulated}},
	{"endbr64, then push", "malloc", "f3 0f 1e fa 41 54 c3",
		place{4, [3]Reg{RegRDI}, 0, Emulated}},
	{"test, je", "free", "48 85 ff 74 01 c3 c3",
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"behind the branch for NULL", "free", "48 85 ff 74 09 55 48 83 ec 10 a8 02 75 02 c3 c3 c3", // push; sub $16,%rsp; test $2,%al; jne
		place{12, [3]Reg{RegRDI}, 24, Emulated}},
	{"behind it is only a push", "free", "48 85 ff 74 03 55 5d c3 c3",
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"behind it is only a call", "free", "48 85 ff 74 05 e8 00 10 00 00 c3",
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"behind it is a store", "free", "48 85 ff 74 06 48 89 37 75 01 c3 c3",
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"behind it is a target", "free", "48 85 ff 74 04 75 02 75 fc c3 c3", // the second jne leads to the first
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"a branch for another register", "free", "48 85 f6 74 04 75 02 c3 c3",
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"a branch for half a register", "free", "85 ff 74 04 75 02 c3 c3",
		place{2, [3]Reg{RegRDI}, 0, Emulated}},
	{"a branch for all but NULL", "free", "48 85 ff 75 04 75 02 c3 c3",
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"NULL is more than nothing to malloc", "malloc", "48 85 ff 74 04 75 02 c3 c3",
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"nor is unmapping 0 nothing", "munmap", "48 85 ff 74 04 75 02 c3 c3",
		place{3, [3]Reg{RegRDI, RegRSI}, 0, Emulated}},
	{"tail jump", "free", "31 d2 e9 00 10 00 00", // xor %edx,%edx; jmp
		place{2, [3]Reg{RegRDI}, 0, Emulated}},
	{"return comes first", "free", "48 85 ff c3",
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"copied, then overwritten", "free", "48 89 f8 31 ff 74 01 c3 c3", // mov %rdi,%rax; xor %edi,%edi; je
		place{5, [3]Reg{RegRAX}, 0, Emulated}},
	{"copy of a copy", "free", "48 89 f8 49 89 c4 31 c0 31 ff 74 01 c3 c3", // rdi -> rax -> r12
		place{10, [3]Reg{RegR12}, 0, Emulated}},
	{"copy overwritten too", "free", "48 89 f8 31 ff b0 01 74 01 c3 c3", // mov $1,%al
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"32-bit copy holds nothing", "free", "89 f8 31 ff 74 01 c3 c3", // mov %edi,%eax
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"partial write", "free", "40 b7 01 74 01 c3 c3", // mov $1,%dil
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"exchanged", "realloc", "48 87 fe 74 01 c3 c3", // xchg %rdi,%rsi
		place{0, [3]Reg{RegRDI, RegRSI}, 0, Stepped}},
	{"one of two overwritten", "calloc", "48 0f af fe 70 01 c3 c3", // imul %rsi,%rdi; jo
		place{0, [3]Reg{RegRDI, RegRSI}, 0, Stepped}},
	{"mul overwrites rdx", "reallocarray", "48 89 f0 48 f7 e2 70 01 c3 c3",
		place{0, [3]Reg{RegRDI, RegRSI, RegRDX}, 0, Stepped}},
	{"mul spares calloc's arguments", "calloc", "48 89 f8 48 f7 e6 70 01 c3 c3", // mov %rdi,%rax; mul %rsi; jo
		place{6, [3]Reg{RegRDI, RegRSI}, 0, Emulated}},
	{"third argument", "posix_memalign", "48 89 d3 31 d2 74 01 c3 c3", // mov %rdx,%rbx
		place{5, [3]Reg{RegRDI, RegRBX}, 0, Emulated}},
	{"stack moved before, return wanted", "malloc", "48 83 ec 18 74 01 c3 c3", // sub $24,%rsp; je
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"stack moved before, no return wanted", "free", "48 83 ec 18 74 01 c3 c3",
		place{4, [3]Reg{RegRDI}, 24, Emulated}},
	{"stack pointer aligned", "free", "48 83 e4 f0 74 01 c3 c3", // and $-16,%rsp
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"branch back to the instruction", "free", "48 85 ff 55 48 ff cf 75 fa c3", // test; push; dec; jne to the push
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"branch back beyond the instruction", "free", "48 85 ff 55 5d 48 ff cf 75 fa c3", // jne to the pop
		place{3, [3]Reg{RegRDI}, 0, Emulated}},
	{"branch back to the entry", "free", "55 5d 48 ff cf 75 f9 c3", // jne to the push at the entry
		place{0, [3]Reg{RegRDI}, 0, Emulated}},
	{"store to memory that others see", "free", "48 89 37 74 01 c3 c3", // mov %rsi,(%rdi)
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"store to the stack", "free", "48 89 74 24 f8 74 01 c3 c3", // mov %rsi,-8(%rsp)
		place{5, [3]Reg{RegRDI}, 0, Emulated}},
	{"locked exchange", "free", "f0 48 0f b1 37 74 01 c3 c3", // lock cmpxchg
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"exchange with memory is locked", "free", "48 87 37 74 01 c3 c3", // xchg %rsi,(%rdi)
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"system call", "munmap", "b8 0b 00 00 00 0f 05 48 3d 01 f0 ff ff 73 01 c3 c3",
		place{0, [3]Reg{RegRDI, RegRSI}, 0, Stepped}},
	{"memory-indirect call", "free", "48 85 ff ff 15 00 00 00 00 74 01 c3 c3",
		place{0, [3]Reg{RegRDI}, 0, Stepped}},
	{"size in the second argument", "memalign", "48 89 f8 31 ff 74 01 c3 c3",
		place{5, [3]Reg{RegRSI}, 0, Emulated}},
	{"mmap wants the length alone", "mmap", "41 89 ca 31 ff 75 01 c3 c3",
		place{5, [3]Reg{RegRSI}, 0, Emulated}},
}

func TestPlace(t *testing.T) {
	for _, tt := range placements {
		t.Run(tt.name, func(t *testing.T) {
			const addr = 0x1000
			code, ok := decodeBody(unhex(t, tt.code), addr)
			if !ok {
				t.Fatal("the code does not decode")
			}
			targets := map[uint64]bool{}
			code.targets(targets)
			s := code.place(functionsByName[tt.function], targets)
			if got := (place{s.addr - addr, s.args, s.grown, s.cost}); got != tt.want {
				t.Errorf("place = %+v (%s), want %+v", got, s.instruction, tt.want)
			}
		})
	}
}

// TestJumpTable: an indirect jump through a pointer leaves the function; one
// through a table, or to an address within, may come back into it.
func TestJumpTable(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		want       bool
	}{
		{"none", "48 85 ff c3", false},
		{"through the GOT", "ff 25 00 00 00 00", false},
		{"through a hook", "48 8b 05 00 00 00 00 48 8b 00 48 83 c4 18 ff e0", false}, // mov x(%rip),%rax; mov (%rax),%rax; add $24,%rsp; jmp *%rax
		{"passed as argument", "ff e7", false},
		{"hook beside a look-up", "4c 8b 04 da ff e0", false},              // mov (%rdx,%rbx,8),%r8; jmp *%rax
		{"table in memory", "ff 24 c5 00 10 00 00", true},                  // jmp *0x1000(,%rax,8)
		{"offset added", "48 63 04 82 48 01 d0 ff e0", true},               // movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax
		{"loaded from a table", "48 8b 04 c2 ff e0", true},                 // mov (%rdx,%rax,8),%rax; jmp *%rax
		{"marked as a switch's", "48 8b 02 3e ff e0", true},                // mov (%rdx),%rax; notrack jmp *%rax
		{"address of a label", "48 8d 05 f9 ff ff ff ff e0", true},         // lea -7(%rip),%rax; jmp *%rax
		{"address of something else", "48 8d 05 00 10 00 00 ff e0", false}, // lea 0x1000(%rip),%rax; jmp *%rax
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, ok := decodeBody(unhex(t, tt.code), 0x1000)
			if !ok {
				t.Fatal("the code does not decode")
			}
			if got := code.jumpTable(); got != tt.want {
				t.Errorf("jumpTable = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestScanCode: branches from elsewhere into a span are found, wherever they
// begin, and nothing else is.
func TestScanCode(t *testing.T) {
	spans := []span{{0x1000, 0x1010}, {0x2000, 0x2001}}
	for _, tt := range []struct {
		name, code string
		addr       uint64
		want       []uint64
	}{
		{"jmp", "e9 fb ef ff ff", 0x2000, []uint64{0x1000}},    // 0x2005 - 0x1005
		{"call", "e8 0a f0 ff ff", 0x2000, []uint64{0x100f}},   // 0x2005 - 0xff6
		{"jne", "0f 85 fe ef ff ff", 0x2000, []uint64{0x1004}}, // 0x2006 - 0x1002
		{"misaligned", "90 e9 fb ef ff ff", 0x2000, []uint64{0x1001}},
		{"beyond the end", "e9 0b f0 ff ff", 0x2000, nil}, // 0x1010
		{"between the spans", "e9 fa f7 ff ff", 0x2001, nil},
		{"cut off", "e9 fb ef ff", 0x2000, nil},
		{"jcc cut off", "0f 85 fe ef ff", 0x2000, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := map[uint64]bool{}
			scanCode(unhex(t, tt.code), tt.addr, spans, found)
			for _, addr := range tt.want {
				if !found[addr] {
					t.Errorf("%#x is not found", addr)
				}
				delete(found, addr)
			}
			if len(found) > 0 {
				t.Errorf("found %#v besides", found)
			}
		})
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
