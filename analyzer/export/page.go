package export

import (
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"io"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// The parts of the page. Names reach it in the JSON alone, and the script puts
// them into the page as text.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

// pageData is what the page's script reads.
type pageData struct {
	Title    string      `json:"title"`
	Subtitle string      `json:"subtitle"`
	Kind     string      `json:"kind"` // to show first
	Inverted bool        `json:"inverted"`
	Kinds    []pageKind  `json:"kinds"`
	Strings  []string    `json:"strings"`
	Frames   [][4]int    `json:"frames"` // function, module, source (of strings), colour
	Stacks   []pageStack `json:"stacks"`
}

type pageKind struct {
	Kind  string `json:"kind"`
	Title string `json:"title"`
	Count bool   `json:"count"` // it has no bytes
	What  string `json:"what"`
}

type pageStack struct {
	Frames []int    `json:"f"` // from the process inward
	Bytes  []uint64 `json:"b"` // of each of Kinds
	Counts []uint64 `json:"c"`
}

// writePage writes a page that needs nothing else: its policy allows its own
// script and style, by their hashes, and no request to anywhere.
func writePage(w io.Writer, r *report.Report, opt Options) error {
	// <, > and & are written as escapes, so that nothing in a string can end the
	// element that the data stands in.
	data, err := render.EncodeJSON(newPageData(r, opt), "", true)
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer(
		"{{script}}", policyHash(pageJS), "{{style}}", policyHash(pageCSS),
		"{{css}}", pageCSS, "{{js}}", pageJS, "{{data}}", string(data),
	).WriteString(w, pageHTML)
	return err
}

// policyHash names an inline script or style in a Content-Security-Policy.
func policyHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// pageTables are the tables of a page's data while they are made.
type pageTables struct {
	*pageData
	strings map[string]int
	frames  map[[2]int]int
	colors  map[string]int
}

func newPageData(r *report.Report, opt Options) *pageData {
	stacks := stacksOf(r)
	d := &pageTables{
		pageData: &pageData{
			Title: processesOf(r), Subtitle: subtitle(r, opt), Kind: string(opt.kind()), Inverted: opt.Inverted,
			Kinds: []pageKind{}, Strings: []string{}, Frames: [][4]int{}, Stacks: []pageStack{},
		},
		strings: make(map[string]int), frames: make(map[[2]int]int),
	}
	var shown []int
	for i, k := range kinds {
		if k.kind == opt.kind() || total(stacks, k.kind).figure(k.kind) > 0 {
			shown = append(shown, i)
			d.Kinds = append(d.Kinds, pageKind{string(k.kind), k.title, k.unit == countUnit, k.what})
		}
	}
	d.chooseColors(stacks)
	for i := range stacks {
		d.add(&stacks[i], shown)
	}
	return d.pageData
}

// chooseColors gives colours to the modules with most bytes of all kinds: a colour
// stays a module's whichever kind is shown.
func (d *pageTables) chooseColors(stacks []stack) {
	own := make(map[string]uint64)
	for i := range stacks {
		var sum uint64
		for _, w := range stacks[i].weights {
			sum = add(sum, w.bytes)
		}
		for _, s := range stacks[i].path(true) {
			own[s.module] = add(own[s.module], sum)
		}
	}
	d.colors, _ = modulePalette(own)
}

func (d *pageTables) text(s string) int {
	at, ok := d.strings[s]
	if !ok {
		at = len(d.Strings)
		d.strings[s] = at
		d.Strings = append(d.Strings, s)
	}
	return at
}

// frame is a function of a file; of its source the first line seen stands for all.
func (d *pageTables) frame(s step, source string) int {
	key := [2]int{d.text(s.label), d.text(s.module)}
	at, ok := d.frames[key]
	if !ok {
		at = len(d.Frames)
		d.frames[key] = at
		d.Frames = append(d.Frames, [4]int{key[0], key[1], d.text(source), d.colors[s.module]})
	}
	return at
}

func (d *pageTables) add(s *stack, shown []int) {
	one := pageStack{Bytes: make([]uint64, len(shown)), Counts: make([]uint64, len(shown))}
	some := false
	for i, k := range shown {
		one.Bytes[i], one.Counts[i] = s.weights[k].bytes, s.weights[k].count
		some = some || one.Bytes[i] != 0 || one.Counts[i] != 0
	}
	if !some {
		return
	}
	path := s.path(true)
	for i, st := range path {
		where := ""
		if inner := len(path) - 1 - i; inner < len(s.frames) {
			where = source(s.frames[inner])
		}
		one.Frames = append(one.Frames, d.frame(st, where))
	}
	d.Stacks = append(d.Stacks, one)
}
