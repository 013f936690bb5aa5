package symbol

import (
	"errors"
	"fmt"
	"path"

	"github.com/memtrace/memtrace/analyzer/symbol/dwarf"
)

// maxSplitFiles bounds the .dwo files of a module that are mapped.
const maxSplitFiles = 4096

// splitFiles opens the .dwo files, or the .dwp file, that hold a module's
// functions.
type splitFiles struct {
	view   view        // the module's
	module *mappedFile // whose DWARF it is
	beside []string    // files that a .dwp file may stand beside
	opened bool        // the package was looked for
	pack   *dwarf.Package
	images []*image
	paid   int64 // for what was decompressed of all of them
	bytes  int64 // sum of their sizes
}

// find is a dwarf.Splitter.
func (s *splitFiles) find(name, dir string, id uint64) (dwarf.Sections, error) {
	if !s.opened {
		s.opened = true
		s.openPackage()
	}
	if s.pack != nil {
		if found, ok := s.pack.Unit(id); ok {
			return found, nil
		}
	}
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	img, err := s.open(name)
	if err != nil {
		return dwarf.Sections{}, err
	}
	if img == nil {
		return dwarf.Sections{}, errors.New("the file was not found")
	}
	return splitSections(img)
}

// openPackage looks for MODULE.dwp.
func (s *splitFiles) openPackage() {
	for _, name := range s.beside {
		img, _ := s.open(name + ".dwp") // as without it, .dwo files are looked for
		if img == nil {
			continue
		}
		sections, err := splitSections(img)
		if err != nil {
			continue
		}
		index, err := img.section(".debug_cu_index")
		if err != nil {
			continue
		}
		if s.pack, err = dwarf.NewPackage(sections, index); err == nil {
			return
		}
	}
}

// open opens a file with split DWARF. The target's file names it: for a
// process with another root it is looked for only there.
func (s *splitFiles) open(name string) (*image, error) {
	if len(s.images) >= maxSplitFiles {
		return nil, fmt.Errorf("more than %d files of split DWARF", maxSplitFiles)
	}
	img, err := s.view.open(name, s.module, !s.view.foreign(), func(found *image) bool {
		return found.elf.Section(".debug_info.dwo") != nil
	})
	if img != nil {
		img.paid = &s.paid
		s.bytes += int64(len(img.file.data))
		s.images = append(s.images, img)
	}
	return img, err
}

func (s *splitFiles) close() {
	if s == nil {
		return
	}
	for _, img := range s.images {
		img.close()
	}
	s.images = nil
}

// foreign says that files of another root than memtrace's own were read.
func (s *splitFiles) foreign() bool { return s != nil && s.view.foreign() && len(s.images) > 0 }

func splitSections(img *image) (s dwarf.Sections, err error) {
	for _, want := range []struct {
		name string
		data *[]byte
	}{
		{".debug_info.dwo", &s.Info}, {".debug_abbrev.dwo", &s.Abbrev}, {".debug_str.dwo", &s.Str},
		{".debug_str_offsets.dwo", &s.StrOffsets}, {".debug_rnglists.dwo", &s.RngLists},
	} {
		if *want.data, err = img.section(want.name); err != nil {
			return s, fmt.Errorf("read split DWARF: %w", err)
		}
	}
	return s, nil
}
