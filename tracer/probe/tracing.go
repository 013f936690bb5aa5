package probe

import (
	"bytes"
	"debug/elf"
)

// Tracing says what a program may want ptrace for. A thread has one tracer at a time.
type Tracing struct {
	Ptraces bool // it calls ptrace
	Checks  bool // it has LeakSanitizer
}

func (t *Tracing) add(o *Object) {
	t.Ptraces = t.Ptraces || o.Ptraces
	t.Checks = t.Checks || o.Checks
}

const (
	ptraceName = "ptrace"
	// leakCheckName is LeakSanitizer's, also as a part of the address sanitizers.
	leakCheckName = "__lsan_do_leak_check"
)

// readTracing notes what a file may want ptrace for: it imports ptrace, or has it and no dynamic loader, or it
// has LeakSanitizer. A table that can't be read is told of where its functions are looked for.
func (im *image) readTracing(o *Object) {
	table := elf.SHT_DYNSYM
	if im.section(table) == nil {
		table = elf.SHT_SYMTAB
	}
	s := im.section(table)
	if s == nil {
		return
	}
	rest, err := im.table(s, maxTable)
	if err != nil {
		return
	}
	names, err := im.symbolNames(s)
	if err != nil {
		return
	}
	for ; len(rest) >= symbolSize; rest = rest[symbolSize:] {
		raw := im.decodeSymbol(rest)
		imports := raw.section == elf.SHN_UNDEF
		switch {
		case raw.name == 0:
		case isName(names, raw.name, ptraceName):
			o.Ptraces = o.Ptraces || imports || o.Static
		case !imports && isName(names, raw.name, leakCheckName):
			o.Checks = true
		}
	}
}

// isName reports whether a name is in a string table at a place.
func isName(names []byte, at uint32, name string) bool {
	if uint64(at)+uint64(len(name)) >= uint64(len(names)) {
		return false
	}
	rest := names[at:]
	return rest[len(name)] == 0 && bytes.HasPrefix(rest, []byte(name))
}
