package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMapOfPackages compares the map in CONTRIBUTING.md with the tree: each package has
// a line, and each line a folder.
func TestMapOfPackages(t *testing.T) {
	const root = "../.."
	listed := mapOfPackages(t, filepath.Join(root, "CONTRIBUTING.md"))
	for folder, n := range listed {
		if info, err := os.Stat(filepath.Join(root, folder)); err != nil || !info.IsDir() {
			t.Errorf("CONTRIBUTING.md: %s/ is no folder", folder)
		}
		if n > 1 {
			t.Errorf("CONTRIBUTING.md: %s/ has %d lines", folder, n)
		}
	}
	packages := packagesBelow(t, root)
	if len(packages) < 30 {
		t.Fatalf("only %d packages were found: %q", len(packages), packages)
	}
	for _, folder := range packages {
		if listed[folder] == 0 {
			t.Errorf("CONTRIBUTING.md: its map has no line for the package in %s/", folder)
		}
	}
}

// mapOfPackages are the folders of the section Layout, and in how many lines each stands.
func mapOfPackages(t *testing.T, file string) map[string]int {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Layout\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := make(map[string]int)
	for line := range strings.Lines(section) {
		if entry, ok := strings.CutPrefix(line, "    "); ok && entry[0] != ' ' {
			folder, what, _ := strings.Cut(strings.TrimSpace(entry), " ")
			if !strings.HasSuffix(folder, "/") || strings.TrimSpace(what) == "" {
				t.Errorf("CONTRIBUTING.md: %q is not FOLDER/ and what is in it", entry)
			}
			listed[strings.TrimSuffix(folder, "/")]++
		}
	}
	return listed
}

// packagesBelow are the folders with Go files, those of testdata aside.
func packagesBelow(t *testing.T, root string) (folders []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name()[0] == '.' || d.Name() == "testdata" || d.Name() == "build"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go"):
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err == nil && !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}
