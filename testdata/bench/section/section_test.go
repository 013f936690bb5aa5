package section

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	if err := Rewrite(path, "# A\n"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ name, body string }{{"b", "one\n"}, {"c", "two\n"}, {"b", "three\n"}} {
		if err := Write(path, step.name, step.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rewrite(path, "# New\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "# New\n\n<!-- begin b -->\nthree\n<!-- end b -->\n\n<!-- begin c -->\ntwo\n<!-- end c -->\n"
	if string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
