package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/demangle"
)

var many = strings.Repeat

// readable demangles a name that has all the time that there is.
func readable(n Names, name string) string {
	text, _ := n.demangled(name, &demangle.Budget{})
	return text
}

// costly is a C++ name, which n makes one of its own, that is demangled by the process for it.
func costly(n int) string {
	return fmt.Sprintf("_Z5f%04dIJ", n) + many("i", 20) + "EEv" + many("Dp1BIT_", 3) + "DpT_" + many("E", 3)
}

// endless is one that takes for ever.
func endless(n int) string {
	return fmt.Sprintf("_Z5f%04dIJ", n) + many("i", 180) + "EEv" + many("Dp1BIT_", 7) + "DpT_" + many("E", 7)
}

// namedAgain is a D name whose first part, of so many letters, is referred to again and again.
func namedAgain(letters, again int) string {
	name := fmt.Sprintf("_D%d", letters) + many("a", letters)
	for range again {
		back := len(name) - len("_D") // in base 26, the last digit in small letters
		digits := ""
		for n := back / 26; n > 0; n /= 26 {
			digits = string(rune('A'+n%26)) + digits
		}
		name += "Q" + digits + string(rune('a'+back%26))
	}
	return name + "Z"
}

// TestHostileNames: names that would take long to demangle, or for ever, stay as they are, and real ones don't. (Those of
// C++ and Rust are package demangle's.)
func TestHostileNames(t *testing.T) {
	for what, name := range map[string]string{
		"C++: packs in packs": endless(1),
		"D: a name again":     namedAgain(8000, 1000),
		"D: modifiers":        "_D1aM" + many("x", 16000) + "Fv",
		"Swift: words":        "$s8000" + many("a", 8000) + "0" + many("a", 7900) + "0V",
	} {
		if text := readable(FullNames, name); text != name {
			t.Errorf("%s: demangled to %.40q…", what, text)
		}
	}
	const real = "_ZSt12construct_atI3FooJRKS0_iEEDTgsnwcvPvLi0E_T_pispcl7declvalIT0_EEEEPS3_DpOS4_"
	if text := readable(FullNames, real); text == real {
		t.Error("a real name stays mangled")
	}
}

// TestOrdinaryNames: the names of a C++ library can all be afforded, together.
func TestOrdinaryNames(t *testing.T) {
	file, err := elf.Open(strings.TrimSpace(tool(t, "gcc", "-print-file-name=libstdc++.so.6")))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil || len(symbols) < 1000 {
		t.Fatalf("%d symbols: %v", len(symbols), err)
	}
	var b demangle.Budget
	for _, s := range symbols {
		if _, err := FullNames.demangled(s.Name, &b); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
	}
}

// TestNamesOfAUser: once they have taken what they may, those that may cost much stay mangled, in all of the user's
// files; cheap ones and those of others don't. Nor are they kept on disk as they are.
func TestNamesOfAUser(t *testing.T) {
	r := newResolver(t, Options{})
	one, two := &mappedFile{path: "one", owner: 4242}, &mappedFile{path: "two", owner: 4242}
	other := &mappedFile{path: "other", owner: 4243}
	if name := costly(0); r.demangled(one, name) == name {
		t.Fatal("a costly name stays mangled at once")
	}
	if name := endless(1); r.demangled(one, name) != name || one.mangled.Load() {
		t.Error("a name without end is demangled, or counts as one that another run may demangle")
	}
	r.demangling(two).Charge(time.Minute)
	if name := costly(1); r.demangled(one, name) != name || !one.mangled.Load() {
		t.Error("a costly name is demangled then")
	}
	if name := costly(1); r.demangled(two, name) != name || !two.mangled.Load() {
		t.Error("a costly name in another file of that user is demangled")
	}
	if w := strings.Join(r.Warnings(), "\n"); !strings.Contains(w, "one: ") || !strings.Contains(w, "user 4242") {
		t.Errorf("warnings %q, want one that names the file, and one that names the user", w)
	}
	cheap := r.demangled(one, "_ZSt4sortIPiEvT_S1_")
	if !strings.HasPrefix(cheap, "void std::sort<") {
		t.Errorf("a cheap name of that user: %q", cheap)
	}
	if name := costly(1); r.demangled(other, name) == name || other.mangled.Load() {
		t.Error("a name of another user stays mangled")
	}
}

// TestOtherLanguagesCount: once the time is spent, names of D and Swift that may cost much stay mangled, too.
func TestOtherLanguagesCount(t *testing.T) {
	var spent demangle.Budget
	spent.Charge(time.Minute)
	for what, c := range map[string]struct{ cheap, costly string }{
		"D":     {"_D3app4core3incFiZi", namedAgain(500, 30)},
		"Swift": {"$s4test3fooyyS2f_SfYkztYjrXEF", "$s4test3fooyy" + many("Say", 100) + "Si" + many("G", 100) + "F"},
	} {
		for _, name := range []string{c.cheap, c.costly} {
			var whole demangle.Budget
			if text, err := FullNames.demangled(name, &whole); err != nil || text == name {
				t.Errorf("%s: %.40s, %v", what, text, err)
			}
		}
		if text, err := FullNames.demangled(c.costly, &spent); text != c.costly || !errors.Is(err, demangle.ErrSpent) {
			t.Errorf("%s, then: %.40s, %v", what, text, err)
		}
		if text, err := FullNames.demangled(c.cheap, &spent); err != nil || text == c.cheap {
			t.Errorf("%s, a cheap one then: %s, %v", what, text, err)
		}
	}
}
