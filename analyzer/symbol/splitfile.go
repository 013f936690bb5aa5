package symbol

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/symbol/dwarf"
	"github.com/memtrace/memtrace/tracer/debugfile"
)

// maxSplitFiles bounds the .dwo files of a module that are mapped.
const maxSplitFiles = 4096

// splitFiles opens the .dwo files, or the .dwp file, that hold a module's
// functions.
type splitFiles struct {
	root   int      // of the process, where that is another than ours, or -1
	beside []string // files that a .dwp file may stand beside
	opened bool     // the package was looked for
	pack   *dwarf.Package
	images []*image
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
	img := s.open(name)
	if img == nil {
		return dwarf.Sections{}, errors.New("the file was not found")
	}
	return splitSections(img)
}

// openPackage looks for MODULE.dwp.
func (s *splitFiles) openPackage() {
	for _, name := range s.beside {
		img := s.open(name + ".dwp")
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
func (s *splitFiles) open(name string) *image {
	if len(s.images) >= maxSplitFiles {
		return nil
	}
	var fd int
	var err error
	if s.root >= 0 {
		fd, _, err = debugfile.OpenRegularIn(s.root, name)
	} else {
		fd, _, err = debugfile.OpenRegular(name)
	}
	if err != nil {
		return nil
	}
	img := debugImage(fd, name, func(found *image) bool { return found.elf.Section(".debug_info.dwo") != nil })
	if img != nil {
		s.images = append(s.images, img)
	}
	return img
}

func (s *splitFiles) close() {
	if s == nil {
		return
	}
	for _, img := range s.images {
		img.close()
	}
	s.images = nil
	if s.root >= 0 {
		unix.Close(s.root)
		s.root = -1
	}
}

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
