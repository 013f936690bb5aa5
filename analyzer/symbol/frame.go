package symbol

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Frame is one function of a stack. Its strings come from the target's files;
// they are valid UTF-8 without control characters, so that printing them does
// nothing to a terminal.
type Frame struct {
	Function string // demangled; "0x…" where there is no name
	Mangled  string // as the file has it, where that differs from Function
	File     string // source file, "" where unknown
	Line     int    // source line, 0 where unknown
	Module   string // path of the mapped file as the process sees it, or the kernel's name such as [vdso]
	BuildID  string // GNU build ID of the module in hexadecimal, or ""
	Offset   uint64 // ELF virtual address in the module that was looked up; where the module can't be read, offset in its file; outside any module, the address itself
	Inlined  bool   // inlined into the frame that follows
	Language string // "python" of a frame of an interpreter; "": machine code
}

func hexName(v uint64) string {
	return "0x" + strconv.FormatUint(v, 16)
}

// printable returns s with what is not text replaced.
func printable(s string) string {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b >= utf8.RuneSelf-1 {
			return strings.Map(func(r rune) rune {
				if !unicode.IsPrint(r) {
					return utf8.RuneError
				}
				return r
			}, s)
		}
	}
	return s
}
