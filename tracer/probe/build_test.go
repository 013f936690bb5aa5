package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// link assembles and links source with gcc, without any library.
func link(t *testing.T, source string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "code.s"), filepath.Join(dir, "code")
	source += "\n.section .note.GNU-stack,\"\",@progbits\n"
	if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-nostdlib", "-o", out, in}, flags...)
	run(t, "gcc", args...)
	return out
}

// run runs a tool and returns its standard output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s(the tests need gcc and binutils)", name, args, err, stderr.Bytes())
	}
	return string(out)
}

// inspectFile inspects a file that must be sound.
func inspectFile(t *testing.T, path string) Object {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o, err := Inspect(f)
	if err != nil {
		t.Fatalf("inspect %s: %v", path, err)
	}
	return o
}

// probeNamed returns the probe of a function.
func probeNamed(o Object, name string) (Probe, bool) {
	for _, p := range o.Probes {
		if p.Name == name {
			return p, true
		}
	}
	return Probe{}, false
}

// rawFunction is a function of a file that elfFile makes.
type rawFunction struct {
	name string
	code []byte
	kind elf.SymType
}

// elfFile makes a shared object by hand: one executable segment at address
// 0x1000 that holds the functions 256 bytes apart, and dynamic symbols.
func elfFile(machine elf.Machine, functions []rawFunction) []byte {
	const text, base, step = 0x200, 0x1000, 0x100
	names, symbols := []byte{0}, make([]byte, symbolSize)
	code := make([]byte, step*len(functions))
	for i, fn := range functions {
		copy(code[i*step:], fn.code)
		symbols = append(symbols, pack(uint32(len(names)), elf.ST_INFO(elf.STB_GLOBAL, fn.kind), byte(0), uint16(1),
			uint64(base+i*step), uint64(len(fn.code)))...)
		names = append(append(names, fn.name...), 0)
	}
	sectionNames := []byte("\x00.text\x00.dynsym\x00.dynstr\x00.shstrtab\x00")
	end := uint64(text + len(code))
	symAt, strAt := end, end+uint64(len(symbols))
	shstrAt := strAt + uint64(len(names))
	shAt := shstrAt + uint64(len(sectionNames))
	section := func(name uint32, kind elf.SectionType, flags elf.SectionFlag, addr, off, size uint64, link uint32, entry uint64) []byte {
		return pack(name, uint32(kind), uint64(flags), addr, off, size, link, uint32(0), uint64(1), entry)
	}
	var out bytes.Buffer
	out.Write(pack([16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		uint16(elf.ET_DYN), uint16(machine), uint32(1), uint64(0), uint64(64), shAt, uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(64), uint16(5), uint16(4)))
	out.Write(pack(uint32(elf.PT_LOAD), uint32(elf.PF_R|elf.PF_X), uint64(text), uint64(base), uint64(base),
		uint64(len(code)), uint64(len(code)), uint64(0x1000)))
	out.Write(make([]byte, text-out.Len()))
	for _, part := range [][]byte{code, symbols, names, sectionNames} {
		out.Write(part)
	}
	out.Write(section(0, elf.SHT_NULL, 0, 0, 0, 0, 0, 0))
	out.Write(section(1, elf.SHT_PROGBITS, elf.SHF_ALLOC|elf.SHF_EXECINSTR, base, text, uint64(len(code)), 0, 0))
	out.Write(section(7, elf.SHT_DYNSYM, elf.SHF_ALLOC, 0, symAt, uint64(len(symbols)), 3, symbolSize))
	out.Write(section(15, elf.SHT_STRTAB, elf.SHF_ALLOC, 0, strAt, uint64(len(names)), 0, 0))
	out.Write(section(23, elf.SHT_STRTAB, 0, 0, shstrAt, uint64(len(sectionNames)), 0, 0))
	return out.Bytes()
}

// pack encodes values one after the other, little-endian.
func pack(values ...any) []byte {
	var buf bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&buf, binary.LittleEndian, v); err != nil {
			panic(err) // a value without a fixed size: a mistake in the test
		}
	}
	return buf.Bytes()
}
