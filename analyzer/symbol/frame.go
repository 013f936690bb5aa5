package symbol

import "strconv"

// Frame is one function of a stack.
type Frame struct {
	Function string // demangled; "0x…" where there is no name
	Mangled  string // as the file has it, where that differs from Function
	File     string // source file, "" where unknown
	Line     int    // source line, 0 where unknown
	Module   string // path of the mapped file as the process sees it, or the kernel's name such as [vdso]
	BuildID  string // GNU build ID of the module in hexadecimal, or ""
	Offset   uint64 // ELF virtual address in the module that was looked up; the address itself outside any module
	Inlined  bool   // inlined into the frame that follows
}

func hexName(v uint64) string {
	return "0x" + strconv.FormatUint(v, 16)
}
