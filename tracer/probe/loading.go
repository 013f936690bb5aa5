package probe

import (
	"path/filepath"
	"regexp"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// cLibraries are names of C libraries, by which programs ask for them: libc.so.6, libc.musl-x86_64.so.1.
var cLibraries = regexp.MustCompile(`^libc\.(so|musl-)`)

// NeedsCLibrary reports whether the program of a process is known to need a C library. Its loader runs no code of the
// program, nor of a library, before it has mapped all that is needed.
func (d *Finder) NeedsCLibrary(pid int) bool {
	dir := memoryDir(d.root, pid)
	program, err := debugfile.Open(filepath.Join(dir, "exe"))
	if err != nil {
		return false
	}
	defer program.Close()
	o, err := d.inspect(program, locator{dirs: debugfile.Dirs, path: programPath(dir)})
	return err == nil && o.needsCLibrary
}
