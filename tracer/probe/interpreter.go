package probe

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrInterpreter: the process reads machine code and runs its own translation of it. Whoever reads a function in which there is
// a probe finds the breakpoint of that, takes it for the program's and dies of it.
var ErrInterpreter = errors.New("an interpreter of machine code, which would take a probe's breakpoint for the program's own and die of it (SIGTRAP): " +
	"it is left alone; trace the program without it")

// interpreters are programs that translate machine code, by the name of their file: valgrind's launcher and tools, QEMU's
// user mode (qemu-img and qemu-system-x86_64 are none), box64, FEX, Rosetta and Pin.
var interpreters = regexp.MustCompile(`^(valgrind(\.bin)?` +
	`|(memcheck|cachegrind|callgrind|helgrind|drd|massif|dhat|lackey|none|exp-[a-z]+)-[a-z0-9]+-(linux|darwin|freebsd|solaris)` +
	`|qemu-(aarch64|alpha|arm|cris|hexagon|hppa|i386|loongarch64|m68k|microblaze|mips|nios2|or1k|ppc|riscv32|riscv64|s390x|sh4|sparc|tilegx|x86_64|xtensa)[a-z0-9_]*(-static)?` +
	`|box(64|86)|FEX(Interpreter|Loader|Bash)?|rosetta|pinbin)$`)

// translators are libraries that translate the program that they are loaded into.
var translators = regexp.MustCompile(`^(libdynamorio\.so|libpin3dwarf\.so|libpinvm.*\.so|vgpreload_.*\.so)$`)

// interprets reports whether a process runs translated machine code. dir is its /proc/PID.
func interprets(dir string, mappings []mapping) bool {
	if interpreters.MatchString(programName(dir)) {
		return true
	}
	for _, m := range mappings {
		if translators.MatchString(filepath.Base(m.path)) {
			return true
		}
	}
	return false
}

// loaders are dynamic loaders that are called as programs; musl's is its C library.
var loaders = regexp.MustCompile(`^(ld(64)?[-.]|libc\.)`)

func programName(dir string) string {
	path := programPath(dir)
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}

// programPath is "" where it can't be had.
func programPath(dir string) string {
	path, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return "" // it has ended, or is not ours to see: then its mappings aren't either
	}
	return strings.TrimSuffix(path, " (deleted)")
}

// errOwnMapping: the file is mapped by a program that has no dynamic loader.
var errOwnMapping = errors.New("a program without a dynamic loader has mapped it by itself, as interpreters of machine code do, to which it is data: it is left alone")

// withoutLoader reports whether the kernel started the program without a dynamic loader, and it is none itself.
func withoutLoader(dir string) bool {
	const atBase = 7 // getauxval(3)
	auxv, err := os.ReadFile(filepath.Join(dir, "auxv"))
	if err != nil || loaders.MatchString(programName(dir)) {
		return false
	}
	for i := 0; i+16 <= len(auxv); i += 16 {
		if binary.NativeEndian.Uint64(auxv[i:]) == atBase {
			return binary.NativeEndian.Uint64(auxv[i+8:]) == 0
		}
	}
	return false
}
