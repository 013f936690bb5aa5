package debugfile

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
	"github.com/memtrace/memtrace/tracer/debugfile/elftest"
)

// compress replaces a file by FILE.xz.
func compress(t testing.TB, path string) {
	t.Helper()
	if out, err := exec.Command("xz", path).CombinedOutput(); err != nil {
		t.Fatalf("xz %s: %v\n%s", path, err, out)
	}
}

// TestHostileXZ takes no more memory than allowed.
func TestHostileXZ(t *testing.T) {
	zeros := filepath.Join(t.TempDir(), "zeros")
	if err := os.WriteFile(zeros, make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	compress(t, zeros)
	good, err := os.ReadFile(zeros + ".xz")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := Unxz(good, 1<<16); err != nil || !bytes.Equal(out, make([]byte, 1<<16)) {
		t.Errorf("%d bytes, %v; want the file", len(out), err)
	}
	if _, err := Unxz(good, 1<<16-1); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v for a file larger than the limit", err)
	}
	// The dictionary's size is the header's last byte but for padding and checksum.
	huge := bytes.Clone(good)
	head := huge[12 : 12+int(huge[12])*4+4]
	at := bytes.Index(head, []byte{0x21, 1})
	head[at+2] = 40 // 4 GiB - 1
	binary.LittleEndian.PutUint32(head[len(head)-4:], crc32.ChecksumIEEE(head[:len(head)-4]))
	if _, err := Unxz(huge, 1<<16); err == nil || !strings.Contains(err.Error(), "dictionary") {
		t.Errorf("got %v for a dictionary of 4 GiB", err)
	}
	// Blocks of nothing, each with a dictionary of 64 MiB, take no more than the output may.
	block := bytes.Clone(good[12 : 12+int(good[12])*4+4])
	block[at+2] = 28 // 64 MiB
	binary.LittleEndian.PutUint32(block[len(block)-4:], crc32.ChecksumIEEE(block[:len(block)-4]))
	block = append(block, 0, 0, 0, 0)                                        // the end of its data, and padding
	block = append(block, make([]byte, []int{0, 4, 0, 0, 8}[good[7]&15])...) // and the check
	many := append(bytes.Clone(good[:12]), bytes.Repeat(block, 10000)...)
	if n := elftest.Allocated(func() { _, err = Unxz(many, 1<<20) }); n > 32<<20 || err == nil {
		t.Errorf("%d bytes taken for blocks of nothing, %v", n, err)
	}
	for n := range len(good) {
		if _, err := Unxz(good[:n], 1<<16); err == nil && n < len(good)-40 {
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
	compress(f, text)
	good, err := os.ReadFile(text + ".xz")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		n := elftest.Allocated(func() {
			if out, err := Unxz(data, 1<<16); err == nil && len(out) > 1<<16 {
				t.Errorf("%d bytes", len(out))
			}
		})
		if n > 16<<20 {
			t.Errorf("%d bytes taken", n)
		}
	})
}
