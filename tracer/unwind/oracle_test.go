package unwind

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// expectation is what readelf says of the addresses [start, end).
type expectation struct {
	start, end uint64
	rule       string // as Rule.String; "expression" where readelf does not say which
}

var entryLine = regexp.MustCompile(`^[0-9a-f]{8,16} [0-9a-f]+ ([0-9a-f]+ )?(CIE|FDE) (.*)`)
var fdeRange = regexp.MustCompile(`cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)`)
var inRegister = regexp.MustCompile(` \([a-z0-9]+\)`) // "r10 (r10)"
var savedNames = [SavedRegisters]string{"rbp", "rbx", "r12", "r13", "r14", "r15"}

// interpreter follows the output of readelf --debug-dump=frames-interp.
type interpreter struct {
	t       *testing.T
	columns []string
	cies    map[uint64]string // rule of functions without instructions
	signal  map[uint64]bool
	offset  uint64 // of the current CIE
	isCIE   bool
	inFDE   uint64 // its CIE
	out     []expectation
}

func hex(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (p *interpreter) line(line string) {
	if m := entryLine.FindStringSubmatch(line); m != nil {
		p.entry(line, m)
		return
	}
	fields := strings.Fields(inRegister.ReplaceAllString(line, ""))
	if len(fields) >= 3 && fields[0] == "LOC" {
		p.columns = fields[1:]
		return
	}
	if len(fields) < 3 || len(fields[0]) != 16 || fields[0] == "Contents" {
		return
	}
	if p.isCIE {
		p.cies[p.offset] = p.rule(fields[1:], p.signal[p.offset])
		return
	}
	at, rule := hex(p.t, fields[0]), p.rule(fields[1:], p.signal[p.inFDE])
	last := &p.out[len(p.out)-1]
	if last.start == at {
		last.rule = rule
		return
	}
	end := last.end
	last.end = at
	p.out = append(p.out, expectation{at, end, rule})
}

func (p *interpreter) entry(line string, m []string) {
	p.isCIE = m[2] == "CIE"
	if p.isCIE {
		p.offset = hex(p.t, line[:strings.IndexByte(line, ' ')])
		p.signal[p.offset] = strings.Contains(m[3], `S`) && strings.HasPrefix(m[3], `"z`)
		return
	}
	r := fdeRange.FindStringSubmatch(m[3])
	if r == nil {
		p.t.Fatalf("unknown line %q", line)
	}
	p.inFDE = hex(p.t, r[1])
	p.out = append(p.out, expectation{hex(p.t, r[2]), hex(p.t, r[3]), p.cies[p.inFDE]})
}

// rule translates a line of readelf's into a Rule's words.
func (p *interpreter) rule(values []string, signal bool) string {
	if signal {
		return "signal"
	}
	at := map[string]string{}
	for i, column := range p.columns {
		at[column] = values[i]
	}
	if at["ra"] == "u" {
		return "end"
	}
	cfa := at["CFA"]
	if cfa == "exp" {
		return "expression"
	}
	if at["ra"] != "c-8" {
		return "none"
	}
	reg := strings.TrimRight(cfa, "-+0123456789")
	if strings.HasPrefix(cfa, "r1") && !strings.HasPrefix(cfa, "r1+") {
		reg = cfa[:3]
	}
	r, known := translated(reg)
	if !known {
		return "none"
	}
	out := r + cfa[len(reg):]
	for i, name := range savedNames {
		switch v := at[name]; {
		case v == "exp":
			out += fmt.Sprintf(" s%d=fp", i)
		case strings.HasPrefix(v, "c"):
			out += fmt.Sprintf(" s%d=%s", i, v)
		}
	}
	return out
}

func translated(reg string) (string, bool) {
	switch reg {
	case "rsp":
		return "sp", true
	case "rbp":
		return "fp", true
	}
	for i, name := range savedNames {
		if name == reg {
			return fmt.Sprintf("s%d", i), true
		}
	}
	return "", false
}

// readelf returns what readelf says of every function of a file.
func readelf(t *testing.T, path string) []expectation {
	t.Helper()
	cmd := exec.Command("readelf", "--wide", "--debug-dump=frames-interp", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := interpreter{t: t, cies: map[uint64]string{}, signal: map[uint64]bool{}}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.line(lines.Text())
	}
	_, _ = io.Copy(io.Discard, out)
	// It fails where .gnu_debuglink names a file that is not there; the
	// number of rows tells whether the rest was read.
	_ = cmd.Wait()
	return p.out
}

// encoded is a file's tables as the kernel has them.
type encoded struct {
	file  *File
	words [][]uint32
	rules []Rule
}

func encode(t *testing.T, path string) *encoded {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := Read(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	e := &encoded{file: file}
	known := map[Rule]uint32{}
	number := func(r Rule) uint32 {
		n, ok := known[r]
		if !ok {
			n = uint32(len(e.rules))
			known[r] = n
			e.rules = append(e.rules, r)
		}
		return n
	}
	number(Rule{})
	for _, s := range file.Segments {
		var words []uint32
		if s.Table != nil {
			words = s.Table.Encode(1, number)
		}
		e.words = append(e.words, words)
	}
	return e
}

func (e *encoded) at(address uint64) Rule {
	for i, s := range e.file.Segments {
		if s.Table != nil && address >= s.Table.Text.Start && address < s.Table.Text.End {
			return e.rules[Lookup(e.words[i], address-s.Table.Text.Start)]
		}
	}
	return Rule{}
}

func (e *encoded) bytes() (n int) {
	for _, w := range e.words {
		n += 4 * len(w)
	}
	return n
}

var fpOffset = regexp.MustCompile(`=fp[-+0-9]+`)

// agrees compares a rule with readelf's words for it.
func agrees(r Rule, want string) bool {
	if want == "expression" {
		return r.Kind == PLT || r.Kind == Deref || r.Kind == None
	}
	return fpOffset.ReplaceAllString(r.String(), "=fp") == want
}

// binaries are files with much code, from compilers and from assemblers.
func binaries(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, ask := range [][]string{
		{"gcc", "-print-file-name=libc.so.6"}, {"gcc", "-print-file-name=libstdc++.so.6"},
		{"gcc", "-print-file-name=ld-linux-x86-64.so.2"}, {"gcc", "-print-prog-name=cc1"},
	} {
		path, err := exec.Command(ask[0], ask[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v", ask, err)
		}
		out = append(out, strings.TrimSpace(string(path)))
	}
	return out
}

// machineOf returns what a file is for.
func machineOf(t *testing.T, path string) elf.Machine {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Machine
}

func TestRowsEqualReadelf(t *testing.T) {
	for _, path := range binaries(t) {
		t.Run(path[strings.LastIndexByte(path, '/')+1:], func(t *testing.T) {
			compareWithReadelf(t, path)
		})
	}
}

func compareWithReadelf(t *testing.T, path string) {
	if m := machineOf(t, path); m != elf.EM_X86_64 {
		t.Fatalf("%s is for %v: the test reads x86-64's register names", path, m)
	}
	e := encode(t, path)
	wants, wrong, unknown := readelf(t, path), 0, 0
	if len(wants) < 500 {
		t.Fatalf("readelf says only %d rows", len(wants))
	}
	for _, want := range wants {
		if want.rule == "expression" {
			unknown++
		}
		for _, at := range []uint64{want.start, want.end - 1} {
			if got := e.at(at); !agrees(got, want.rule) {
				if wrong++; wrong < 10 {
					t.Errorf("%#x: %v, want %s", at, got, want.rule)
				}
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d rows differ", wrong, len(wants))
	}
	if e.file.Bad != 0 {
		t.Errorf("%d entries left out", e.file.Bad)
	}
	if percent := 100 * e.bytes() / e.file.Source; percent > 60 {
		t.Errorf("tables take %d bytes, %d %% of the section's %d", e.bytes(), percent, e.file.Source)
	}
	t.Logf("%d rows (%d expressions), %d rules; %d bytes of tables from %d (%d %%)", len(wants), unknown,
		len(e.rules), e.bytes(), e.file.Source, 100*e.bytes()/e.file.Source)
}
