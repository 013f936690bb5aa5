package probe

import (
	"debug/elf"
	"fmt"
)

const relaSize = 24 // Elf64_Rela

// relocations fills im.slots from the relocations that bind one word each to
// a symbol (JUMP_SLOT, GLOB_DAT): where the word leads if the file's own
// definition is chosen. The names of those that only another file defines are in im.imports.
// Those of variables of threads (TPOFF64) fill im.tlsSlots.
func (im *image) relocations() error {
	im.slots, im.imports, im.tlsSlots = map[uint64]uint64{}, map[uint64]string{}, map[uint64]bool{}
	symtab := im.section(elf.SHT_DYNSYM)
	if symtab == nil {
		return nil
	}
	table, err := im.table(symtab, maxTable)
	if err != nil {
		return err
	}
	names, err := im.symbolNames(symtab)
	if err != nil {
		return err
	}
	for _, s := range im.file.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		data, err := im.table(s, maxTable)
		if err != nil {
			return fmt.Errorf("read relocations: %w", err)
		}
		for ; len(data) >= relaSize; data = data[relaSize:] {
			im.addSlot(data, table, names)
			if len(im.slots)+len(im.imports)+len(im.tlsSlots) > maxSlots {
				return fmt.Errorf("read relocations: %w of %d", errTooLarge, maxSlots)
			}
		}
	}
	return nil
}

func (im *image) addSlot(rela, symtab, names []byte) {
	at, info := im.order.Uint64(rela), im.order.Uint64(rela[8:])
	index := info >> 32
	if im.file.Machine == elf.EM_X86_64 && elf.R_X86_64(uint32(info)) == elf.R_X86_64_TPOFF64 {
		im.tlsSlots[at] = true
		return
	}
	if !im.bindsWord(uint32(info)) || (index+1)*symbolSize > uint64(len(symtab)) {
		return
	}
	sym := im.decodeSymbol(symtab[index*symbolSize:])
	switch {
	case sym.section == elf.SHN_UNDEF:
		if name := stringAt(names, uint64(sym.name)); len(name) < maxKnownName {
			im.imports[at] = name
		}
	case elf.ST_TYPE(sym.info) == elf.STT_FUNC:
		im.slots[at] = sym.value
	}
}

// bindsWord says whether a relocation stores a symbol's address in a word.
func (im *image) bindsWord(relocation uint32) bool {
	if im.file.Machine == elf.EM_AARCH64 {
		r := elf.R_AARCH64(relocation)
		return r == elf.R_AARCH64_JUMP_SLOT || r == elf.R_AARCH64_GLOB_DAT
	}
	r := elf.R_X86_64(relocation)
	return r == elf.R_X86_64_JMP_SLOT || r == elf.R_X86_64_GLOB_DAT
}
