//go:build amd64

package probe

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// libcPath asks the dynamic loader which C library programs here use.
func libcPath(t *testing.T) string {
	t.Helper()
	out := run(t, "ldd", "/bin/sh")
	path := regexp.MustCompile(`libc\.so\.6 => (/\S+)`).FindStringSubmatch(out)
	if path == nil {
		t.Fatalf("ldd names no libc.so.6 for /bin/sh (these tests need a system with glibc):\n%s", out)
	}
	return path[1]
}

// TestInspectLibc compares what Inspect says of this system's C library with
// what nm and objdump say.
func TestInspectLibc(t *testing.T) {
	path := libcPath(t)
	o := inspectFile(t, path)
	if o.Family != Glibc || o.Static || o.Soname != "libc.so.6" {
		t.Errorf("family %v, static %v, soname %q", o.Family, o.Static, o.Soname)
	}
	if notes := run(t, "readelf", "-n", path); o.BuildID == "" || !strings.Contains(notes, "Build ID: "+o.BuildID) {
		t.Errorf("build ID %q is not the one that readelf shows", o.BuildID)
	}
	checkEntries(t, path, o, "malloc", "calloc", "realloc", "reallocarray", "free", "posix_memalign",
		"aligned_alloc", "memalign", "valloc", "pvalloc", "mmap", "munmap", "mremap", "brk", "sbrk", "shmat", "shmdt")
	checkPlaces(t, path, o)
}

// checkEntries wants a probe at the address that nm gives for each name.
func checkEntries(t *testing.T, path string, o Object, names ...string) {
	t.Helper()
	byEntry := map[uint64]Probe{}
	for _, p := range o.Probes {
		byEntry[p.Entry] = p
	}
	addresses := map[string]uint64{}
	for _, line := range strings.Split(run(t, "nm", "-D", "--defined-only", path), "\n") {
		if f := strings.Fields(line); len(f) == 3 {
			name, _, _ := strings.Cut(f[2], "@")
			addresses[name] = parseHex(t, f[0])
		}
	}
	delta := textDelta(t, path)
	for _, name := range names {
		entry := addresses[name] - delta
		p, ok := byEntry[entry]
		if !ok {
			t.Errorf("%s at %#x has no probe", name, entry)
		} else if want := functionsByName[name]; p.Shape != want.shape {
			t.Errorf("%s has shape %v, want %v", name, p.Shape, want.shape)
		}
	}
}

// textDelta is the address of .text less its offset in the file.
func textDelta(t *testing.T, path string) uint64 {
	t.Helper()
	for _, line := range strings.Split(run(t, "objdump", "-h", "-j", ".text", path), "\n") {
		if f := strings.Fields(line); len(f) > 5 && f[1] == ".text" {
			return parseHex(t, f[3]) - parseHex(t, f[5])
		}
	}
	t.Fatalf("objdump shows no .text in %s", path)
	return 0
}

func parseHex(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var (
	objdumpLine  = regexp.MustCompile(`^\s*([0-9a-f]+):\t(?:\S*:)?(\S+)\s*(.*)$`)
	transfer     = regexp.MustCompile(`^(j\w+|call\w?|ret\w?|bnd|notrack|syscall|hlt|ud2|int3?|loop\w*|xbegin)$`)
	branchTo     = regexp.MustCompile(`^([0-9a-f]+) <`)
	emulatedHere = regexp.MustCompile(`^(nop|xchg +%ax,%ax|push +%r\w\w?|j\w+ +[0-9a-f]+ <.*|call +[0-9a-f]+ <.*)$`)
)

// checkPlaces wants, by objdump's disassembly of the whole file: each place
// is the beginning of an instruction of an emulated kind (where it is said to
// be), no control transfer stands between the entry and the place but that of a
// release of NULL, and no branch of the file leads in between or to the place.
func checkPlaces(t *testing.T, path string, o Object) {
	t.Helper()
	delta := textDelta(t, path)
	type line struct{ op, args string }
	code, order, targets := map[uint64]line{}, []uint64{}, map[uint64]uint64{}
	for _, text := range strings.Split(run(t, "objdump", "-d", "--no-show-raw-insn", path), "\n") {
		m := objdumpLine.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		addr := parseHex(t, m[1])
		code[addr] = line{m[2], m[3]}
		order = append(order, addr)
		if to := branchTo.FindStringSubmatch(m[3]); to != nil && transfer.MatchString(m[2]) {
			targets[parseHex(t, to[1])] = addr
		}
	}
	position := make(map[uint64]int, len(order))
	for i, addr := range order {
		position[addr] = i
	}
	for _, p := range o.Probes {
		entry, place := p.Entry+delta, p.Offset+delta
		at, ok := code[place]
		if !ok {
			t.Errorf("%s: %#x is not the beginning of an instruction", p.Name, place)
			continue
		}
		if p.Cost == Emulated && !emulatedHere.MatchString(strings.TrimSpace(at.op+" "+at.args)) {
			t.Errorf("%s: %q is not emulated", p.Name, at.op+" "+at.args)
		}
		for i := position[entry]; order[i] < place; i++ {
			forNull := p.Shape == Free && code[order[i]].op == "je" && code[order[i-1]] == line{"test", "%rdi,%rdi"}
			if transfer.MatchString(code[order[i]].op) && !forNull {
				t.Errorf("%s: %q at %#x may leave before %#x", p.Name, code[order[i]].op, order[i], place)
			}
			if next := order[i+1]; targets[next] != 0 {
				t.Errorf("%s: the branch at %#x leads to %#x, between entry and %#x", p.Name, targets[next], next, place)
			}
		}
	}
}

// TestAllocatorLibraries does the same for every other allocator installed
// here, and for the musl C library, if any. The table of docs/probes.md comes
// from these: go test -run TestProbesTable -update.
func TestAllocatorLibraries(t *testing.T) {
	for _, path := range installed() {
		o := inspectFile(t, path)
		if len(o.Probes) == 0 {
			t.Errorf("%s: no probes", path)
		}
		checkPlaces(t, path, o)
	}
}

// installed lists the allocators besides glibc's that this system has.
func installed() (paths []string) {
	for _, path := range []string{
		"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
		"/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2",
		"/lib/ld-musl-x86_64.so.1",
	} {
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// BenchmarkInspect measures what attaching waits for.
func BenchmarkInspect(b *testing.B) {
	f, err := os.Open("/lib/x86_64-linux-gnu/libc.so.6")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if _, err := Inspect(f); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleProbe() {
	p := Probe{Name: "free", Shape: Free, Entry: 0x98ef0, Offset: 0x98ef3, Args: [3]Reg{RegRDI}, Instruction: "je 0x98fb8"}
	fmt.Printf("%s+%d %s, %v in %v\n", p.Name, p.Offset-p.Entry, p.Instruction, p.Cost, p.Args[0])
	// Output: free+3 je 0x98fb8, emulated in rdi
}
