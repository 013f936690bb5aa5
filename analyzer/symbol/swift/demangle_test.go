package swift

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// pairs are names and what swift-demangle makes of them, as the tests of Swift's
// own demangler have them (test/Demangle/Inputs/manglings.txt), but for three that
// were made for these tests: $s3foo3barC3bas3zimyAaEC_tF, $s3BBBBf0602365061_ and
// the thunk of a back-deployed function.
//
//go:embed testdata/pairs.txt
var pairs string

func eachPair(visit func(name, want string)) {
	for line := range strings.Lines(pairs) {
		if name, want, ok := strings.Cut(strings.TrimSpace(line), " ---> "); ok {
			visit(name, want)
		}
	}
}

func TestFullNames(t *testing.T) {
	n := 0
	eachPair(func(name, want string) {
		n++
		got, _, ok := Demangle(name, false, most)
		if !ok {
			got = name
		}
		if got != want {
			t.Errorf("%s:\n got  %s\n want %s", name, got, want)
		}
	})
	if n < 60 {
		t.Errorf("%d pairs only", n)
	}
}

// most is enough for any name of a compiler.
const most = 1 << 16

// TestWork: what a name of this length could have us write again and again is counted, and ends.
func TestWork(t *testing.T) {
	word, many := strings.Repeat("a", 8000), strings.Repeat
	for what, name := range map[string]string{
		"names of words": "$s8000" + word + many("0aA0", 2000) + "V",
		"operators":      "$s8000" + word + many("AAoi", 2000) + "V",
		"punycode":       "$s004000" + many("a", 2000) + "_" + many("b", 1999) + "V",
		"substitutions":  "$s1a1bVA" + many("2000a", 2000) + "A",
	} {
		if text, took, ok := Demangle(name, false, most); ok || took < most/2 {
			t.Errorf("%s: %.40s in %d steps", what, text, took)
		}
	}
	tooLong := "$s8000" + word + "0" + many("a", 7900) + "0V" // refused at the third word, not once they are all put together
	if text, took, ok := Demangle(tooLong, false, most); ok || took > 2000 {
		t.Errorf("words: %.40s in %d steps", text, took)
	}
}

func TestShortNames(t *testing.T) {
	for name, want := range map[string]string{
		"$s4test3fooyyS2f_SfYkztYjrXEF":                          "test.foo",
		"$S3nix8MystructV6testit1x1u1vyx_qd__qd_0_tr0_lF":        "nix.Mystruct.testit",
		"$s7example1fyyYaKF":                                     "example.f",
		"_$sSC3fooyS2d_SdtFTO":                                   "@nonobjc __C_Synthesized.foo",
		"$s4Test6testityyxlFAA8MystructV_TB5":                    "Test.testit",
		"_$SSC3fooyS2d_SdtFTO":                                   "@nonobjc __C_Synthesized.foo",
		"$s4Test5ProtoP8IteratorV10collectionAEy_qd__Gqd___tcfc": "Test.Proto.Iterator.init",
	} {
		if got, _, ok := Demangle(name, true, most); !ok || got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// What is no name, or one that is not known, is refused, and none takes long.
func TestUnknownNamesAreRefused(t *testing.T) {
	for _, name := range []string{
		"$s", "main", "$sThing", "_$s0", "$s99999999999a", "$syQo", "$s__TJO", "$SSD1BySSSBsg_G", "$sSD5IndexVy__GD",
		"$s" + strings.Repeat("Sayy", 4000) + "SiG", "$s" + strings.Repeat("y", 10_000), "$s1aV" + strings.Repeat("A_", 4000),
		"$sSi" + strings.Repeat("_AAt", 100) + strings.Repeat("AA2_t", 2000),
		"$sSi2048Si" + strings.Repeat("A2048A", 2000), "$s00" + "9_99999999a",
	} {
		if text, _, ok := Demangle(name, false, most); ok {
			t.Errorf("%.60s is taken for %.100s", name, text)
		}
	}
}

func FuzzDemangle(f *testing.F) {
	eachPair(func(name, _ string) { f.Add(name) })
	f.Fuzz(func(t *testing.T, name string) {
		defer costtest.Bound(t)()
		for _, short := range []bool{false, true} {
			if text, took, ok := Demangle(name, short, most); took > most || ok && len(text) > 2*maxName {
				t.Errorf("%d bytes, %d steps", len(text), took)
			}
		}
	})
}
