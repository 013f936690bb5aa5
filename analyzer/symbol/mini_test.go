package symbol

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
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

// TestHostileXZ takes no more memory than allowed.
func TestHostileXZ(t *testing.T) {
	zeros := filepath.Join(t.TempDir(), "zeros")
	if err := os.WriteFile(zeros, make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "xz", zeros)
	good, err := os.ReadFile(zeros + ".xz")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := unxz(good, 1<<16); err != nil || !bytes.Equal(out, make([]byte, 1<<16)) {
		t.Errorf("%d bytes, %v; want the file", len(out), err)
	}
	if _, err := unxz(good, 1<<16-1); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v for a file larger than the limit", err)
	}
	// The dictionary's size is the header's last byte but for padding and checksum.
	huge := bytes.Clone(good)
	head := huge[12 : 12+int(huge[12])*4+4]
	at := bytes.Index(head, []byte{0x21, 1})
	head[at+2] = 40 // 4 GiB - 1
	binary.LittleEndian.PutUint32(head[len(head)-4:], crc32.ChecksumIEEE(head[:len(head)-4]))
	if _, err := unxz(huge, 1<<16); err == nil || !strings.Contains(err.Error(), "dictionary") {
		t.Errorf("got %v for a dictionary of 4 GiB", err)
	}
	for n := range len(good) {
		if _, err := unxz(good[:n], 1<<16); err == nil && n < len(good)-40 {
			t.Errorf("no error on the first %d of %d bytes", n, len(good))
		}
	}
}

// FuzzXZ decompresses damaged streams.
func FuzzXZ(f *testing.F) {
	text := filepath.Join(f.TempDir(), "text")
	if err := os.WriteFile(text, []byte("as dull as dull can be, as dull as dull"), 0o600); err != nil {
		f.Fatal(err)
	}
	tool(f, "xz", text)
	good, err := os.ReadFile(text + ".xz")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, err := unxz(data, 1<<16); err == nil && len(out) > 1<<16 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
