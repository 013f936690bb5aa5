package swift

import (
	_ "embed"
	"strings"
	"testing"
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
		got, ok := Demangle(name, false)
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
		if got, ok := Demangle(name, true); !ok || got != want {
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
		if text, ok := Demangle(name, false); ok {
			t.Errorf("%.60s is taken for %.100s", name, text)
		}
	}
}

func FuzzDemangle(f *testing.F) {
	eachPair(func(name, _ string) { f.Add(name) })
	f.Fuzz(func(t *testing.T, name string) {
		for _, short := range []bool{false, true} {
			if text, ok := Demangle(name, short); ok && len(text) > 2*maxName {
				t.Errorf("%d bytes", len(text))
			}
		}
	})
}
