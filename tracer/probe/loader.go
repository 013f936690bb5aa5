package probe

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memtrace/memtrace/procfs"
)

// LoaderHook is the empty function that a dynamic loader calls for debuggers once it has
// mapped a library and what that needs, before it runs any code of theirs (<link.h>,
// r_brk), and as often when nothing has come.
const LoaderHook = "_dl_debug_state"

// Loader opens the dynamic loader that a process was started through; nil: it was
// started without. Root is where the proc file system is mounted.
func Loader(root string, pid int) (*os.File, error) {
	dir := memoryDir(root, pid)
	base, err := loaderBase(dir)
	if err != nil || base == 0 {
		return nil, err
	}
	loader, err := firstFrom(dir, base)
	if err != nil || loader == nil {
		return nil, err
	}
	f, err := loader.Open(root, pid) // its code follows its headers
	if err == nil {
		return f, nil
	}
	if left, again := Executable(root, pid); again != nil || len(left) == 0 { // it has no memory any more, and no files
		err = fmt.Errorf("%w: %w", os.ErrProcessDone, err)
	}
	return nil, fmt.Errorf("open the loader %s of process %d: %w", loader.Path, pid, err)
}

// firstFrom is the first mapping of a file's code that begins at an address or behind it; nil: there is none.
func firstFrom(dir string, addr uint64) (found *Mapping, err error) {
	var names procfs.Names
	err = procfs.CodeFrom(dir, addr, func(v *procfs.VMA) bool {
		if v.Start < addr || v.Inode == 0 {
			return true
		}
		m := mappingOf(v, &names)
		found = &m
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("look for the loader: %w", exited(err))
	}
	return found, nil
}

// loaderBase reads where the loader was mapped (getauxval(3), AT_BASE); 0: there is none.
func loaderBase(dir string) (uint64, error) {
	const atBase = 7
	auxv, err := os.ReadFile(filepath.Join(dir, "auxv"))
	if err != nil {
		return 0, fmt.Errorf("look for the loader: %w", exited(err))
	}
	for i := 0; i+16 <= len(auxv); i += 16 {
		if binary.NativeEndian.Uint64(auxv[i:]) == atBase {
			return binary.NativeEndian.Uint64(auxv[i+8:]), nil
		}
	}
	return 0, nil
}
