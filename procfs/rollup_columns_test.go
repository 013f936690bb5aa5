package procfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rollupTexts are the fixtures' smaps_rollup files without their first lines.
func rollupTexts(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(fixtures + "/*/*/smaps_rollup")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	texts := make(map[string][]byte)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, lines, ok := bytes.Cut(text, []byte("\n")); ok && len(lines) > 0 {
			texts[path] = lines
		}
	}
	return texts
}

// Every kernel's own text is in columns, and reads the same either way.
func TestColumns(t *testing.T) {
	defer rollupKeys.Store(nil)
	for path, lines := range rollupTexts(t) {
		rollupKeys.Store(nil)
		want, err := parseRollupLines(lines) // which learns
		if err != nil || want.Rss == 0 {
			t.Fatalf("%s: %+v, %v", path, want, err)
		}
		if got, ok := parseColumns(lines); !ok || got != want {
			t.Errorf("%s: by columns %+v, %v, line by line %+v", path, got, ok, want)
		}
		for name, other := range map[string][]byte{
			"another key":        bytes.Replace(lines, []byte("Rss:"), []byte("Rsz:"), 1),
			"a line less":        lines[columnsLine:],
			"a line more":        append(bytes.Clone(lines), lines[:columnsLine]...),
			"more than 8 digits": bytes.Replace(lines, []byte("Rss:    "), []byte("Rss:    100000000"), 1),
			"another unit":       bytes.Replace(lines, []byte(" kB\n"), []byte(" MB\n"), 1),
		} {
			if _, ok := parseColumns(other); ok {
				t.Errorf("%s: %s is taken for the learned columns", path, name)
			}
		}
	}
}

func TestFlushRight(t *testing.T) {
	check := func(columns string) {
		t.Helper()
		trimmed := strings.TrimLeft(columns, " ")
		want, err := strconv.ParseUint(trimmed, 10, 64)
		if err == nil && strings.HasPrefix(trimmed, "+") {
			err = strconv.ErrSyntax
		}
		got, ok := flushRight(binary.LittleEndian.Uint64([]byte(columns)))
		if ok != (err == nil) || ok && got != want {
			t.Errorf("%q: got %d, %v; want %d, %v", columns, got, ok, want, err)
		}
	}
	for n := uint64(1); n < 99_999_999; n = n*5/3 + 1 {
		check(fmt.Sprintf("%8d", n))
	}
	for _, n := range []int{0, 9, 10, 99, 99_999_999, 12_345_678, 90_000_000} {
		check(fmt.Sprintf("%8d", n))
	}
	for at := range 8 { // any byte anywhere, after digits and after blanks
		for b := range 256 {
			for _, around := range []string{"12345678", "       0", "    4096"} {
				columns := []byte(around)
				columns[at] = byte(b)
				check(string(columns))
			}
		}
	}
}

func BenchmarkParseRollup(b *testing.B) {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	_, lines, _ := bytes.Cut(text, []byte("\n"))
	for name, parse := range map[string]func() error{
		"lines":   func() error { _, err := parseRollupLines(lines); return err },
		"columns": func() error { _, err := parseRollup(text); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := parse(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
