package symbol

import (
	"path/filepath"
	"testing"
)

// packMini moves a program's symbols of functions into .gnu_debugdata, as
// Fedora's build does (GDB manual, "MiniDebugInfo").
func packMini(t *testing.T, program string, xzFlags ...string) {
	t.Helper()
	mini := filepath.Join(t.TempDir(), "mini")
	tool(t, "objcopy", "-S", "--remove-section", ".comment", "--only-keep-debug", "--keep-symbol=plain", "--keep-symbol=main", program, mini)
	tool(t, "xz", append(xzFlags, mini)...)
	tool(t, "objcopy", "--strip-all", "--add-section", ".gnu_debugdata="+mini+".xz", program)
}

// TestMiniDebugInfo names local functions of a stripped program.
func TestMiniDebugInfo(t *testing.T) {
	for name, flags := range map[string][]string{
		"default": nil, "largest dictionary": {"-9"}, "no check": {"--check=none"},
		"SHA-256": {"--check=sha256"}, "several blocks": {"--block-size=4096"},
	} {
		program := compile(t, "inlines.c", "-O2", "-g0")
		plain := symbolValue(t, program, "plain")
		packMini(t, program, flags...)
		s, r := fileSpace(t, program), newResolver(t, Options{})
		if got := r.Function(s, plain); got != "plain" || len(r.Warnings()) > 0 {
			t.Errorf("%s: %q, warnings %q; want plain", name, got, r.Warnings())
		}
	}
}
