package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWholeFileIsWholeOrAsItWas(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "out"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("out", link); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := wholeFile(path).save(func(w io.Writer) error { return errors.Join(second(io.WriteString(w, "half")), broken) })
	if text, _ := os.ReadFile(path); !errors.Is(err, broken) || string(text) != "old" {
		t.Errorf("%v, the file has %q", err, text)
	}
	if err := wholeFile(link).save(func(w io.Writer) error { return second(io.WriteString(w, "new")) }); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	info, err := os.Stat(path)
	if err != nil || string(text) != "new" || info.Mode() != 0o600 {
		t.Errorf("%v, the file has %q, mode %v", err, text, info.Mode())
	}
	if to, err := os.Readlink(link); err != nil || to != "out" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.part")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func second(_ int, err error) error { return err }

func TestWholeFileIsCheckedBefore(t *testing.T) {
	dir := t.TempDir()
	for path, says := range map[string]string{
		filepath.Join(dir, "new"): "", "/dev/null": "",
		filepath.Join(dir, "no", "such"): "no such file or directory", dir: "is a directory", "/dev/full/x": "not a directory",
	} {
		if path == "/dev/full/x" { // what is below /dev is written to as it is, at the end
			if err := wholeFile(path).save(func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err := wholeFile(path).check(); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("the check left %v", left)
	}
}

func TestFlagsMayFollowFiles(t *testing.T) {
	for args, want := range map[string]string{
		"export a.json --format html -o out":   "export --format html -o out -- a.json",
		"export --format=html a b --inverted":  "export --format=html --inverted -- a b",
		"export - --kind live":                 "export --kind live -- -",
		"report -- --odd-name":                 "report -- --odd-name",
		"report a --top":                       "report --top -- a",
		"diff a b --top 3":                     "diff --top 3 -- a b",
		"matrix a --top 3":                     "matrix a --top 3",
		"run --report x -- export --format -o": "run --report x -- export --format -o",
	} {
		line := append([]string{"memtrace"}, strings.Fields(args)...)
		got := strings.Join(flagsFirst(line, commandsWithArguments(newApp()))[1:], " ")
		if got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func TestExportFlag(t *testing.T) {
	f, err := parseExport("flamegraph:peak:inverted=a=b:c.svg")
	if err != nil || f.path != "a=b:c.svg" || f.options.Kind != "peak" || !f.options.Inverted {
		t.Errorf("%+v, %v", f, err)
	}
	for text, says := range map[string]string{
		"heap.svg": "it is to be FORMAT=FILE", "html=": "it names no file", "html=-": "stdout is taken", "pdf=x": `format "pdf" is none of`,
		"html:live:peak=x": `"peak" is one word too many`, "folded:big=x": `kind "big" is none of`, "csv:inverted=x": "inverted is for",
	} {
		if _, err := parseExport(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
