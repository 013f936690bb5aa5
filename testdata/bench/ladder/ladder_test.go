package ladder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sources = "../../../bpf"

// Each step ends at a line that the sources have once; where one has moved on, the ladder must, too.
func TestEveryStepHasItsPlace(t *testing.T) {
	seen := make(map[string]string)
	for _, e := range edits() {
		if _, done := seen[e.file]; done {
			continue
		}
		text, err := os.ReadFile(filepath.Join(sources, e.file))
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.file], err = apply(e.file, string(text)); err != nil {
			t.Error(err)
		}
	}
	all := header()
	for _, text := range seen {
		all += text
	}
	for _, r := range Rungs() {
		if r.Of == Both || r.Name == AllocSubmit || r.Name == FreeSubmit {
			continue // these end where the programs do
		}
		if n := strings.Count(all, "RUNG_"+r.Name); n < 2 {
			t.Errorf("nothing ends at the rung %s", r.Name)
		}
	}
}

func TestAMissingPlaceIsAnError(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(sources, block))
	if err != nil {
		t.Fatal(err)
	}
	const line = "\temit_head(self, RECORD_FREE, addr, interval, flags);\n"
	for _, other := range []string{
		strings.ReplaceAll(string(text), line, "\n"),
		strings.ReplaceAll(string(text), line, line+line),
	} {
		if _, err := apply(block, other); err == nil || !strings.Contains(err.Error(), "emit_head") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestRungsStandOnOneAnother(t *testing.T) {
	before := make(map[string]Call)
	for _, r := range Rungs() {
		if of, there := before[r.Before]; r.Before != "" && (!there || (of != None && of != r.Of)) {
			t.Errorf("%s stands on %q", r.Name, r.Before)
		}
		before[r.Name] = r.Of
	}
}

func TestTheGeneratorIsThatOfTheProductionObject(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(sources, "gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	argv, err := generator(string(text))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(argv, " ")
	if !strings.Contains(string(text), strings.Replace(line, "-target amd64", "-target amd64,arm64", 1)) {
		t.Errorf("%s is not the command of bpf/gen.go", line)
	}
	if _, err := generator("package bpf\n"); err == nil {
		t.Error("a file without the command is no error")
	}
}
