//go:build linux && !viewer

package goheap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ways to build and run the program.
var ways = []struct {
	name string
	args []string
	env  []string
	by   string
}{
	{"plain", nil, nil, bySymbols},
	{"stripped", []string{"-ldflags=-s -w"}, nil, byCode},
	{"position independent", []string{"-buildmode=pie"}, nil, bySymbols},
	{"position independent, stripped", []string{"-buildmode=pie", "-ldflags=-s -w"}, nil, byCode},
	{"every block", nil, []string{"RATE=1"}, bySymbols},
}

// The same stacks, names and bytes as the program's own profile of the same collection, to the byte. docs/languages.md says so of each version.
func TestReadIsTheProgramsOwnProfile(t *testing.T) {
	rows := make(map[string]string)
	for _, root := range roots() {
		version, found := "", []string(nil)
		for _, w := range ways {
			ok := t.Run(filepath.Base(root)+" "+w.name, func(t *testing.T) {
				s := start(t, build(t, root, "program", w.args...), w.env...)
				s.ask("gc")
				r := s.open()
				p := read(t, r)
				version = p.Version
				if p.By != w.by || p.Unsettled || p.Cut || p.BeforeGC {
					t.Errorf("found by %s, unsettled %v, cut %v, before the first collection %v", p.By, p.Unsettled, p.Cut, p.BeforeGC)
				}
				compare(t, ours(r, p), theirs(s.profile()))
			})
			found = append(found, map[bool]string{true: "yes", false: "no"}[ok])
		}
		minor, row := rowOf(version, found)
		rows[minor] = row
	}
	checkTable(t, rows)
}

// roots are the roots of Go installations: the one of the tests, and those that MEMTRACE_GOROOTS lists.
func roots() []string {
	return append([]string{""}, filepath.SplitList(os.Getenv("MEMTRACE_GOROOTS"))...)
}

// Before the first collection all that was sampled counts, as in the program's own profile.
func TestReadBeforeTheFirstCollection(t *testing.T) {
	s := start(t, build(t, "", "program"), "RATE=1")
	r := s.open()
	p := read(t, r)
	if !p.BeforeGC {
		t.Error("a collection is said to have ended")
	}
	got, deep := ours(r, p), figures{}
	for key, v := range got {
		if strings.HasPrefix(key, "main.inlined ") && strings.Contains(key, "main.deep ") {
			deep = v
		}
	}
	if want := (figures{2000, 2000 * 3072, 2000, 2000 * 3072}); deep != want {
		t.Errorf("%d at the site that has %d", deep, want)
	}
}

// With a rate of 1 the figures are those of the source.
func TestReadEveryBlock(t *testing.T) {
	s := start(t, build(t, "", "program"), "RATE=1")
	s.ask("gc")
	r := s.open()
	p := read(t, r)
	if p.Rate != 1 {
		t.Fatalf("rate %d", p.Rate)
	}
	want := map[string]uint64{"main.deep": 2000, "main.chain[go.shape.int64]": 20000, "main.chain[go.shape.string]": 20000}
	got := make(map[string]uint64)
	for _, site := range p.Sites {
		for _, f := range r.Frames(site.Addrs)[:2] {
			if want[f.Function] != 0 {
				got[f.Function] += site.InUse.Count
				if site.InUse.BytesSE() != 0 {
					t.Errorf("%s has an error of %d bytes", f.Function, site.InUse.BytesSE())
				}
				break
			}
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%d blocks in use at %s, want %d", got[name], name, n)
		}
	}
}

// What grew between two readings is found at its function.
func TestReadFindsGrowth(t *testing.T) {
	s := start(t, build(t, "", "program", "-ldflags=-s -w"))
	s.ask("gc")
	r := s.open()
	before := ours(r, read(t, r))
	s.ask("grow")
	after := ours(r, read(t, r))
	most, where := int64(0), ""
	for key, v := range after {
		if by := v[3] - before[key][3]; by > most {
			most, where = by, key
		}
	}
	if !strings.HasPrefix(where, "main.grow ") || most < 200*(512<<10)*2/3 || most > 200*(512<<10)*3/2 {
		t.Errorf("grew by %d bytes at %s", most, where)
	}
}
