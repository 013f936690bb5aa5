package symbol

import (
	"strings"
	"testing"
)

// TestHostileNames: names that would take long to demangle, or for ever, stay as they are, and real ones don't.
func TestHostileNames(t *testing.T) {
	many := strings.Repeat
	for what, name := range map[string]string{
		"packs of packs":      "_Z1fIJ" + many("i", 200) + "EEv" + many("DpP", 1000) + "T_",
		"many expansions":     "_Z1fIJ" + many("i", 2000) + "EEv" + many("DpPT_", 1000),
		"pointers":            "_Z1f" + many("P", 16000) + "i",
		"pointers of a kind":  "_Z1f" + many("PKRV", 4000) + "i",
		"functions in others": "_Z" + many("Z", 8000) + "1fv" + many("E1a", 2000),
	} {
		if text := FullNames.demangled(name); text != name {
			t.Errorf("%s: demangled to %.40q…", what, text)
		}
	}
	const real = "_ZSt12construct_atI3FooJRKS0_iEEDTgsnwcvPvLi0E_T_pispcl7declvalIT0_EEEEPS3_DpOS4_"
	if text := FullNames.demangled(real); text == real {
		t.Error("a real name stays mangled")
	}
}

// TestLongNamesOfAFile: once they have taken their time, those of the file stay mangled, its short ones and
// those of others don't.
func TestLongNamesOfAFile(t *testing.T) {
	r := newResolver(t, Options{})
	tired, other := &mappedFile{path: "tired"}, &mappedFile{path: "other"}
	tired.demangling.Store(int64(maxDemangling) + 1)
	long := "_Z" + "600" + strings.Repeat("a", 600) + "v"
	if text := r.demangled(tired, long); text != long || len(r.Warnings()) != 1 {
		t.Errorf("%.20q…, warnings %q; want the mangled name and a warning", text, r.Warnings())
	}
	if text := r.demangled(tired, "_Z1fv"); text != "f()" {
		t.Errorf("%q, want f()", text)
	}
	if text := r.demangled(other, long); text == long || other.demangling.Load() <= 0 {
		t.Errorf("%.20q… of another file in %d ns", text, other.demangling.Load())
	}
}
