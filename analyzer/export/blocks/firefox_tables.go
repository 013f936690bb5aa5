package blocks

import "path"

// firefoxTables are the tables that all threads share.
type firefoxTables struct {
	stacks  *stackTree
	strings *index
	libs    []firefoxLib
	sources *index
	funcs   []firefoxFunc
	funcOf  []int // by frame
	libOf   map[firefoxLib]int
	funcBy  map[firefoxFunc]int
}

type firefoxLib struct {
	Arch       string `json:"arch"`
	Name       string `json:"name"`
	Path       string `json:"path"`
	DebugName  string `json:"debugName"`
	DebugPath  string `json:"debugPath"`
	BreakpadID string `json:"breakpadId"`
	CodeID     string `json:"codeId"` // the build ID
}

// A firefoxFunc is a function by numbers; -1: not known.
type firefoxFunc struct{ name, source, lib int }

func newFirefoxTables(stacks *stackTree) *firefoxTables {
	t := &firefoxTables{
		stacks: stacks, strings: newIndex(), sources: newIndex(), libs: []firefoxLib{},
		libOf: make(map[firefoxLib]int), funcBy: make(map[firefoxFunc]int),
	}
	for i := range stacks.frames {
		f := &stacks.frames[i]
		one := firefoxFunc{name: t.text(f.name), source: -1, lib: t.lib(f)}
		if f.file != "" {
			one.source, _ = t.sources.add(f.file)
			t.text(f.file)
		}
		at, ok := t.funcBy[one]
		if !ok {
			at = len(t.funcs)
			t.funcBy[one] = at
			t.funcs = append(t.funcs, one)
		}
		t.funcOf = append(t.funcOf, at)
	}
	return t
}

func (t *firefoxTables) text(s string) int {
	at, _ := t.strings.add(s)
	return at
}

func (t *firefoxTables) lib(f *frame) int {
	if f.module == "" {
		return -1
	}
	name := path.Base(f.module)
	one := firefoxLib{Name: name, Path: f.module, DebugName: name, DebugPath: f.module, CodeID: f.buildID}
	at, ok := t.libOf[one]
	if !ok {
		at = len(t.libs)
		t.libOf[one] = at
		t.libs = append(t.libs, one)
		t.text(name)
	}
	return at
}

func (t *firefoxTables) write(j *jsonWriter) {
	j.begin('{')
	t.writeStacks(j)
	t.writeFrames(j)
	t.writeFuncs(j)
	j.key("resourceTable")
	n := len(t.libs)
	j.begin('{')
	j.column("lib", n, false, func(i int) int64 { return int64(i) })
	j.column("name", n, false, func(i int) int64 { return int64(t.text(t.libs[i].Name)) })
	j.same("host", n, "null")
	j.same("type", n, "1") // a library
	j.member("length", n)
	j.end('}')
	j.member("nativeSymbols", map[string]any{"libIndex": []any{}, "address": []any{}, "name": []any{}, "functionSize": []any{}, "length": 0})
	j.key("sources")
	n = len(t.sources.all)
	j.begin('{')
	j.same("uuid", n, "null")
	j.column("filename", n, false, func(i int) int64 { return int64(t.text(t.sources.all[i])) })
	j.member("length", n)
	j.end('}')
	j.member("stringArray", t.strings.all)
	j.end('}')
}

func (t *firefoxTables) writeStacks(j *jsonWriter) {
	nodes := t.stacks.nodes
	j.key("stackTable")
	j.begin('{')
	j.column("frame", len(nodes), false, func(i int) int64 { return int64(nodes[i].frame) })
	j.column("prefix", len(nodes), true, func(i int) int64 { return int64(nodes[i].parent) })
	j.member("length", len(nodes))
	j.end('}')
}

func (t *firefoxTables) writeFrames(j *jsonWriter) {
	frames := t.stacks.frames
	n := len(frames)
	j.key("frameTable")
	j.begin('{')
	j.column("address", n, false, func(i int) int64 {
		if frames[i].module == "" {
			return -1
		}
		return int64(frames[i].offset & exactInteger)
	})
	j.column("func", n, false, func(i int) int64 { return int64(t.funcOf[i]) })
	j.column("line", n, true, func(i int) int64 {
		if frames[i].line == 0 {
			return -1
		}
		return int64(frames[i].line)
	})
	for _, name := range []string{"inlineDepth", "category", "subcategory", "innerWindowID"} {
		j.same(name, n, "0")
	}
	j.same("nativeSymbol", n, "null")
	j.same("column", n, "null")
	j.member("length", n)
	j.end('}')
}

func (t *firefoxTables) writeFuncs(j *jsonWriter) {
	n := len(t.funcs)
	j.key("funcTable")
	j.begin('{')
	j.column("name", n, false, func(i int) int64 { return int64(t.funcs[i].name) })
	j.column("source", n, true, func(i int) int64 { return int64(t.funcs[i].source) })
	j.column("resource", n, false, func(i int) int64 { return int64(t.funcs[i].lib) })
	j.same("isJS", n, "false")
	j.same("relevantForJS", n, "false")
	j.same("lineNumber", n, "null")
	j.same("columnNumber", n, "null")
	j.member("length", n)
	j.end('}')
}
