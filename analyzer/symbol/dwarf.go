package symbol

import (
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/analyzer/symbol/dwarf"
)

// dwarfReader reads the debug information of one module, from the module's
// own file or its debug file.
type dwarfReader struct {
	opened bool
	data   *dwarf.Data // nil where there is none
	damage int         // lookups that a panic ended
}

// maxDamage is how many panics, of which one would be a bug and some are a
// file truncated in use, are caught before a file's DWARF is left alone.
const maxDamage = 3

func (d *dwarfReader) lookup(img, debug *image, addr uint64) (found []dwarf.Location, err error) {
	if !d.opened {
		d.opened = true
		err = d.open(img, debug)
	}
	if d.data == nil || d.damage >= maxDamage {
		return nil, err
	}
	var readErr error
	what := "read the DWARF of " + img.file.path
	fault := guard(what, func() error {
		found, readErr = d.data.Lookup(addr)
		return nil
	})
	if fault != nil {
		d.damage++
		return nil, errors.Join(err, fault)
	}
	if readErr != nil {
		readErr = fmt.Errorf("%s: %w", what, readErr)
	}
	return found, errors.Join(err, readErr)
}

// open finds the sections. A section that can't be had leaves the others.
func (d *dwarfReader) open(img, debug *image) error {
	source := img
	if !img.hasDWARF() {
		source = debug
	}
	if source == nil {
		return nil
	}
	var s dwarf.Sections
	var errs []error
	for _, want := range []struct {
		name string
		data *[]byte
	}{
		{".debug_info", &s.Info}, {".debug_abbrev", &s.Abbrev}, {".debug_aranges", &s.Aranges},
		{".debug_line", &s.Line}, {".debug_line_str", &s.LineStr}, {".debug_str", &s.Str},
		{".debug_str_offsets", &s.StrOffsets}, {".debug_addr", &s.Addr},
		{".debug_ranges", &s.Ranges}, {".debug_rnglists", &s.RngLists},
	} {
		errs = append(errs, guard("read the DWARF of "+source.file.path, func() (err error) {
			*want.data, err = source.section(want.name)
			return err
		}))
	}
	if len(s.Info) > 0 {
		d.data = dwarf.New(s, 0)
	}
	return errors.Join(errs...)
}
