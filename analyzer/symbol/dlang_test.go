package symbol

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// TestDLang has what `c++filt -s dlang` (binutils 2.40) makes of names of gdc 12 and LDC 1.30.
func TestDLang(t *testing.T) {
	for _, c := range []struct{ mangled, full, short string }{
		{"_D3app4core3incFiZi", "app.core.inc(int)", "app.core.inc"},
		{"_D3app4core4Impl2goMFZ5localMFNaNbNiNfZi", "app.core.Impl.go().local()", "app.core.Impl.go.local"},
		{"_D3app4core4mainFAAyaZ9__lambda6MFNaNbNiNfiZv", "app.core.main(immutable(char)[][]).__lambda6(int)", "app.core.main.__lambda6"},
		{"_D3app4core6Widget6renderMFKAiMDFiZvZv", "app.core.Widget.render(ref int[], scope void(int) delegate)", "app.core.Widget.render"},
		{"_D33TypeInfo_S3app4core__T5PointTdZQj6__initZ", "initializer for TypeInfo_S3app4core__T5PointTdZQj", "initializer for TypeInfo_S3app4core__T5PointTdZQj"},
		{"_D3app4core4Impl7__ClassZ", "ClassInfo for app.core.Impl", "ClassInfo for app.core.Impl"},
		{"_D3app4core__T5twiceTiS_DQxQv3incFiZiZQyQh", "app.core.twice!(int, app.core.inc(int)).twice", "app.core.twice.twice"},
		{"_D3std10checkedint4Warn__T10onOverflowVAyaa1_2bTmTxlZQBbFNfmxlZm",
			"std.checkedint.Warn.onOverflow!(\"+\", ulong, const(long)).onOverflow(ulong, const(long))", "std.checkedint.Warn.onOverflow.onOverflow"},
		{"_D3std11concurrency17setMaxMailboxSizeFSQBmQBl3TidmPFQoZbZv",
			"std.concurrency.setMaxMailboxSize(std.concurrency.Tid, ulong, bool(std.concurrency.Tid) function)", "std.concurrency.setMaxMailboxSize"},
		{"_DYNAMIC", "_DYNAMIC", "_DYNAMIC"},
		{"_DTi16_D3app4core4Impl2goMFZv", "_DTi16_D3app4core4Impl2goMFZv", "_DTi16_D3app4core4Impl2goMFZv"},
	} {
		if got := readable(FullNames, c.mangled); got != c.full {
			t.Errorf("%s: %s, want %s", c.mangled, got, c.full)
		}
		if got := readable(ShortNames, c.mangled); got != c.short {
			t.Errorf("%s, short: %s, want %s", c.mangled, got, c.short)
		}
	}
}

func TestDLangIsBounded(t *testing.T) {
	for _, name := range []string{
		"_D1a" + strings.Repeat("A", 10_000), "_D" + strings.Repeat("__T", 3000), "_D1aFQbZv", "_D1a" + strings.Repeat("Qb", 5000),
		"_D" + strings.Repeat("1a__T", 1000) + "Z", "_D99999999999999999999a", "_D",
	} {
		if got := readable(FullNames, name); got != name {
			t.Errorf("%.40s is taken for %.80s", name, got)
		}
	}
}

func FuzzDLang(f *testing.F) {
	f.Add("_D3app4core__T5twiceTiS_DQxQv3incFiZiZQyQh")
	f.Add("_D3std10checkedint4Warn__T10onOverflowVAyaa1_2bTmTxlZQBbFNfmxlZm")
	f.Fuzz(func(t *testing.T, name string) {
		defer costtest.Bound(t)()
		if len(name) > 2 && len(name) <= maxMangled {
			for _, short := range []bool{false, true} {
				if text, took, _ := demangleD(name, short, maxSteps); took > maxSteps || len(text) > 2<<maxDemangledPow {
					t.Errorf("%d bytes, %d steps", len(text), took)
				}
			}
		}
	})
}
