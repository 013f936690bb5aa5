package probe

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
)

// dwarfSymbols reads the functions of interest from the DWARF of a file that
// has no symbol table.
func (im *image) dwarfSymbols() (symbols, error) {
	out := im.newSymbols()
	data, err := im.dwarfData()
	if err != nil {
		return out, fmt.Errorf("read DWARF: %w", err)
	}
	w := dwarfWalk{r: data.Reader(), left: maxDWARFWork}
	for {
		entry, err := w.next()
		if err != nil {
			return out, err
		}
		if entry == nil {
			out.addLocals()
			return out, nil
		}
		switch entry.Tag {
		case dwarf.TagCompileUnit, 0:
			continue
		case dwarf.TagSubprogram:
			out.addDWARF(entry)
		}
		if err := w.skip(entry); err != nil {
			return out, err
		}
	}
}

// addDWARF records a function. Where it is not external it is a file's own.
func (s *symbols) addDWARF(entry *dwarf.Entry) {
	low, ok := entry.Val(dwarf.AttrLowpc).(uint64)
	if !ok {
		return
	}
	name, ok := entry.Val(dwarf.AttrLinkageName).(string)
	if !ok {
		if name, ok = entry.Val(dwarf.AttrName).(string); !ok {
			return
		}
	}
	var size uint64
	switch high := entry.Val(dwarf.AttrHighpc).(type) {
	case int64:
		size = uint64(high)
	case uint64:
		size = high - low
	}
	external, _ := entry.Val(dwarf.AttrExternal).(bool)
	s.count++
	found := symbol{addr: low, size: size}
	s.addUser([]byte(name), found)
	s.define([]byte(name), found, !external)
}

// isFunction says whether a symbol's type is one of code.
func isFunction(kind elf.SymType) bool {
	return kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC
}
