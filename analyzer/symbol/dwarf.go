package symbol

import (
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/analyzer/symbol/dwarf"
)

// dwarfReader reads the debug information of one module, from the module's
// own file or its debug file, and from the files that these refer to.
type dwarfReader struct {
	source *image // borrowed; nil where there is no DWARF
	alt    *image // what dwz moved out of source, or nil
	split  *splitFiles
	opened bool
	data   *dwarf.Data // nil where there is none
	damage int         // lookups that a panic ended
	read   int         // estimate of the bytes of files read since their pages were dropped
}

const (
	// maxRead is the bytes read until the pages of the files are dropped.
	maxRead = 32 << 20
	// readWork and readLookup estimate the bytes by the work of a lookup, and
	// by lookup: names lie all over .debug_str, and the kernel maps 64 KiB
	// around each page that is read.
	readWork, readLookup = 10, 256 << 10
)

// maxDamage is how many panics, of which one would be a bug and some are a
// file truncated in use, are caught before a file's DWARF is left alone.
const maxDamage = 3

// find settles which files to read. The error says what there won't be.
func (d *dwarfReader) find(l loader, img, debug *image, modulePath string, v view) (err error) {
	d.source = img
	at := modulePath
	if !img.hasDWARF() {
		if debug == nil || !debug.hasDWARF() {
			d.source = nil
			return nil
		}
		d.source, at = debug, debug.file.path
	}
	d.alt, err = l.finder.findAlt(d.source, at, v)
	// Only units that are split, and some of clang's, have .debug_addr.
	if d.source.elf.Section(".debug_addr") != nil {
		d.split = &splitFiles{view: v, module: d.source.file, beside: []string{modulePath}}
		if at != modulePath {
			d.split.beside = append(d.split.beside, at)
		}
	}
	return err
}

func (d *dwarfReader) lookup(addr uint64) (found []dwarf.Location, err error) {
	if d.source == nil {
		return nil, nil
	}
	if !d.opened {
		d.opened = true
		err = d.open()
	}
	if d.data == nil || d.damage >= maxDamage {
		return nil, err
	}
	var readErr error
	what := "read the DWARF of " + d.source.file.path
	size := d.bytes()
	d.data.Allow(int(workLimit(size)-d.source.file.work.Load()), size <= smallFile)
	fault := guard(what, func() error {
		found, readErr = d.data.Lookup(addr)
		return nil
	})
	d.source.file.work.Add(int64(max(0, d.data.Work()-freeWork)))
	d.dropPages()
	if fault != nil {
		d.damage++
		return nil, errors.Join(err, fault)
	}
	if readErr != nil {
		readErr = fmt.Errorf("%s: %w", what, readErr)
	}
	return found, errors.Join(err, readErr)
}

// bytes is the size of all files that are read.
func (d *dwarfReader) bytes() int64 {
	n := int64(len(d.source.file.data))
	if d.alt != nil {
		n += int64(len(d.alt.file.data))
	}
	if d.split != nil {
		n += d.split.bytes
	}
	return n
}

// dropPages keeps the memory that counts as memtrace's in bounds.
func (d *dwarfReader) dropPages() {
	if d.read += d.data.Work()*readWork + readLookup; d.read < maxRead {
		return
	}
	d.read = 0
	d.source.file.dropPages()
	if d.alt != nil {
		d.alt.file.dropPages()
	}
	if d.split != nil {
		for _, img := range d.split.images {
			img.file.dropPages()
		}
	}
}

// open finds the sections. A section that can't be had leaves the others.
func (d *dwarfReader) open() error {
	s, err := sectionsOf(d.source)
	if d.alt != nil {
		alt, altErr := sectionsOf(d.alt)
		s.Alt = &alt
		err = errors.Join(err, altErr)
	}
	if d.split != nil {
		s.Split = d.split.find
	}
	if len(s.Info) > 0 {
		d.data = dwarf.New(s, 0)
	}
	return err
}

func (d *dwarfReader) close() {
	d.alt.close()
	d.split.close()
}

func sectionsOf(img *image) (s dwarf.Sections, err error) {
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
		errs = append(errs, guard("read the DWARF of "+img.file.path, func() (err error) {
			*want.data, err = img.section(want.name)
			return err
		}))
	}
	return s, errors.Join(errs...)
}
