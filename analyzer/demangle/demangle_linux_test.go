//go:build !viewer

package demangle

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/demangle/worker"
)

var many = strings.Repeat

// doubled is a type of two of the type before it, of two of that one, and so on: %[1]s refers to that one.
func doubled(levels int, format string) string {
	name := "_Z1fIiEvT_3AAAIT_S0_E"
	for i := range levels {
		name += fmt.Sprintf(format, reference(2*i+2))
	}
	return name
}

// reference is how a C++ name refers to the nth of its parts.
func reference(n int) string {
	if n == 0 {
		return "S_"
	}
	return "S" + strings.ToUpper(base36(n-1)) + "_"
}

func base36(n int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	if n < 36 {
		return digits[n : n+1]
	}
	return base36(n/36) + digits[n%36:n%36+1]
}

// hostile are names that the library takes long for, or memory without end, each for a cause of its own.
func hostile() map[string]string {
	long := many("a", 4000)
	return map[string]string{
		"expansions in a few bytes":   "_Z1fIJ" + many("i", 180) + "EEv" + many("Dp1BIT_", 7) + "DpT_" + many("E", 7),
		"expansions within arguments": "_Z1fIJ" + many("i", 90) + "EEv" + many("Dp1BIT_", 90) + "DpT_" + many("E", 90),
		"packs of packs":              "_Z1fIJ" + many("i", 200) + "EEv" + many("DpP", 1000) + "T_",
		"many expansions":             "_Z1fIJ" + many("i", 2000) + "EEv" + many("DpPT_", 1000),
		"doubled arguments":           doubled(40, "3AAAI%[1]s%[1]sE"),
		"doubled parameters":          doubled(40, "PF%[1]s%[1]sE"),
		"packs of one":                "_Z1fIJ" + many("J", 4000) + "i" + many("E", 4001) + "Ev" + many("T_", 2500),
		"casts":                       "_ZN1A" + many("cvT_IN1A", 2000) + "v",
		"expansions of expressions": "_Z1fIJ" + many("i", 200) + "EEDTcl1gspcl" + many("spcl1gsp", 200) + "fp_" +
			many("E", 203) + "DpT_",
		"pointers":                    "_Z1f" + many("P", 16000) + "i",
		"qualified pointers":          "_Z1f" + many("PKRV", 4000) + "i",
		"functions in others":         "_Z" + many("Z", 8000) + "1fv" + many("E1a", 2000),
		"a part named again":          "_Z1f" + many("P", 5000) + "i" + many("S_", 2) + many("PS_S0_SZZ_", 1000),
		"qualifiers":                  "_Z1f" + many("K", 16000) + "i",
		"qualifiers again":            "_Z1fM1A" + many("Do", 4000) + "FvvE" + many("KS1_", 1900),
		"lambdas in lambdas":          "_Z1f" + many("Ul", 4000) + "v" + many("E_", 4000),
		"local names by reference":    "_ZZ1fI" + many("P", 3000) + "iEvvE" + many("Z1gIS1_EvvE", 500) + "1x",
		"captured packs":              "_Z1fIiEv1AIXsP" + many("i", 8000) + "EEE" + many("S1_", 2000),
		"constructors":                "_ZN1A" + many("IiEC1", 3000) + "Ev",
		"Rust: lifetimes":             "_RMIC0" + many("FGzz_Eu", 1000) + "Eu",
		"Rust: implementations again": "_RINvC1a1bMC4000" + long + "u" + many("B7_", 3000) + "E",
		"Rust: punycode again":        "_RINvC1a1bMCu8000_" + many("ba", 4000) + "u" + many("B7_", 2500) + "E",
	}
}

// TestHostileNames: each is given up, or done in the time that a name may take; each is found doubtful, and the process
// goes on for the names after it.
func TestHostileNames(t *testing.T) {
	const plain, want = "_ZSt4sortIN9__gnu_cxx17__normal_iteratorIPiSt6vectorIiSaIiEEEEEvT_S7_", "void std::sort<"
	endless := map[string]bool{
		"expansions in a few bytes": true, "expansions within arguments": true, "doubled arguments": true,
		"doubled parameters": true, "casts": true, "packs of one": true,
	}
	for what, name := range hostile() {
		forms := []Form{Full}
		if strings.HasPrefix(what, "doubled") {
			forms = append(forms, Short)
		}
		for _, form := range forms {
			var b Budget
			text, err := b.Demangle(name, form)
			if err != nil && (text != name || !errors.Is(err, ErrCost)) || len(text) > worker.MaxText {
				t.Errorf("%s: %.40q…, %v", what, text, err)
			}
			if err != nil && time.Duration(b.spent.Load()) < worker.MaxTime-ordinary {
				t.Errorf("%s: %d ns were counted for it", what, b.spent.Load())
			}
			if !doubtful(name) {
				t.Errorf("%s: demangled here", what)
			}
			if endless[what] && form == Full && err == nil {
				t.Errorf("%s: %.40q…", what, text)
			}
		}
		if text, _, err := ask(plain, Full); err != nil || !strings.HasPrefix(text, want) {
			t.Fatalf("after %s: %q, %v", what, text, err)
		}
	}
}

// TestProcessIsNotToBlame: a process that somebody has ended is started again, for the same name.
func TestProcessIsNotToBlame(t *testing.T) {
	if _, _, err := ask("_Z1fv", Full); err != nil {
		t.Fatal(err)
	}
	process.Lock()
	first := process.cmd.Process.Pid
	process.kill()
	process.Unlock()
	text, _, err := ask("_Z1gv", Full)
	if err != nil || text != "g()" {
		t.Errorf("%q, %v", text, err)
	}
	if process.cmd.Process.Pid == first {
		t.Error("it was not ended")
	}
}

// TestSignalsAreNotForIt: what ends memtrace by way of its terminal or its control group leaves the names of its last
// Report; the process ends when it is idle.
func TestSignalsAreNotForIt(t *testing.T) {
	if _, _, err := ask("_Z1fv", Full); err != nil {
		t.Fatal(err)
	}
	pid := process.cmd.Process.Pid
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process group %d, %v; want its own", group, err)
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || string(comm) != worker.Name+"\n" {
		t.Errorf("it is called %q, %v", comm, err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
	}
	if text, _, err := ask("_Z1gv", Full); err != nil || text != "g()" || process.cmd.Process.Pid != pid {
		t.Errorf("%q by %d, %v; want it by %d", text, process.cmd.Process.Pid, err, pid)
	}
	stopIdle()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%d is still there: %v", pid, err)
	}
	if text, _, err := ask("_Z1gv", Full); err != nil || text != "g()" {
		t.Errorf("then %q, %v", text, err)
	}
}

// TestBudget: once an owner's names have taken what they may, those that may cost anything stay as they are.
func TestBudget(t *testing.T) {
	var b, other Budget
	costly := func(n int) string {
		return fmt.Sprintf("_Z5f%04dIJ", n) + many("i", 20) + "EEv" + many("Dp1BIT_", 3) + "DpT_" + many("E", 3)
	}
	text, err := b.Demangle(costly(0), Full)
	if err != nil || !strings.HasPrefix(text, "void f0000<") {
		t.Fatalf("%.40q…, %v", text, err)
	}
	if b.spent.Load() <= 0 {
		t.Error("its cost does not count")
	}
	b.Charge(maxSpent + ordinary)
	if name := costly(1); !b.Spent() {
		t.Error("it is not spent")
	} else if text, err := b.Demangle(name, Full); text != name || !errors.Is(err, ErrSpent) {
		t.Errorf("%.40q…, %v; want the name and ErrSpent", text, err)
	}
	if text, err := b.Demangle("_Z1fv", Full); text != "f()" || err != nil {
		t.Errorf("a cheap name: %q, %v", text, err)
	}
	if text, err := other.Demangle(costly(1), Short); text != "f0001" || err != nil {
		t.Errorf("of another owner: %q, %v", text, err)
	}
}

// TestSameHereAndThere: the process makes of a name what we do.
func TestSameHereAndThere(t *testing.T) {
	for _, name := range []string{
		"_ZSt12construct_atI3FooJRKS0_iEEDTgsnwcvPvLi0E_T_pispcl7declvalIT0_EEEEPS3_DpOS4_",
		"_RNvCskwGfYPst2Cb_3foo16example_function", "_ZN3foo17h0123456789abcdefE", "_Znot", "main", "",
		"_ZN5outer5innerIiE4workINS_3argEEENSt9enable_ifIXsr3std7is_sameIT_iEE5valueEvE4typeERKS5_EUlTyT0_E_",
	} {
		for _, form := range []Form{Full, Short} {
			text, _, err := ask(name, form)
			if want := worker.Demangle(name, form); err != nil || text != want {
				t.Errorf("%s: %q, %v; want %q", name, text, err, want)
			}
		}
	}
}

func BenchmarkPlain(b *testing.B) {
	const name = "_ZSt4sortIN9__gnu_cxx17__normal_iteratorIPiSt6vectorIiSaIiEEEEEvT_S7_"
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			worker.Demangle(name, Full)
		}
	})
	b.Run("budget", func(b *testing.B) {
		var all Budget
		for b.Loop() {
			_, _ = all.Demangle(name, Full)
		}
	})
	b.Run("process", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = ask(name, Full)
		}
	})
}
