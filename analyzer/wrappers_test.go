package analyzer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/wrapper"
	"github.com/memtrace/memtrace/tracer/event"
)

// A code is a symbolizer for stacks that a test makes of functions' names.
type code struct {
	frames map[uint64]*report.Frame
	byName map[string]uint64
}

func (c *code) Frames(_ int, addrs []uint64, _ uint64) (out []*report.Frame) {
	for _, addr := range addrs {
		out = append(out, c.frames[addr])
	}
	return out
}

// stack returns the addresses of functions, each with one address, as if each called
// the next one inwards from one place: "f" or "f@2" for another place in it.
func (c *code) stack(functions ...string) (addrs []uint64) {
	if c.frames == nil {
		c.frames, c.byName = make(map[uint64]*report.Frame), make(map[string]uint64)
	}
	for _, name := range functions {
		addr, ok := c.byName[name]
		if !ok {
			addr = 0x1000 + uint64(len(c.byName))
			c.byName[name] = addr
			f := &report.Frame{Module: "/bin/program", Offset: addr}
			f.Function, _, _ = strings.Cut(name, "@")
			c.frames[addr] = f
		}
		addrs = append(addrs, addr)
	}
	return addrs
}

// site makes a site: a block of a size that is allocated with a stack, innermost first.
func (c *code) site(a *Analyzer, size uint64, functions ...string) {
	id := event.StackID(a.sites.used + 1)
	a.AddStack(event.Stack{ID: id, PID: testPID, Frames: c.stack(functions...)})
	a.Apply(new(trace).malloc(0x10000*uint64(id), size, id).events)
}

// functions are what the sites are called, in their order.
func (c *code) functions(a *Analyzer) (out []string) {
	out = make([]string, a.sites.used)
	for _, s := range a.reportAt(testStart+10_000, ReportOptions{}, c).Sites {
		for _, id := range append(s.MergedIDs, s.ID) {
			out[id] = s.Function
		}
	}
	return out
}

func TestFunctionIsOutsideOfWrappers(t *testing.T) {
	libc := func(function string) *report.Frame {
		return &report.Frame{Function: function, Module: "/usr/lib/x86_64-linux-gnu/libc.so.6"}
	}
	own := func(function string) *report.Frame { return &report.Frame{Function: function, Module: "/bin/program"} }
	nameless := func(module string) *report.Frame {
		return &report.Frame{Function: "0x1234", Module: module, Offset: 0x1234}
	}
	jit := func(function string) *report.Frame { return &report.Frame{Function: function, Module: "[anon]"} }
	named, err := wrapper.Read([]string{"grab_*", "_ZN2ns4PoolI*"})
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{Wrappers: named})
	defer a.Close()
	for i, c := range []struct {
		stack []*report.Frame
		want  string
		at    int
	}{
		{[]*report.Frame{own("zmalloc_usable"), own("_sdsnewlen"), own("main")}, "_sdsnewlen", 1},
		{[]*report.Frame{own("main"), own("zmalloc")}, "main", 0},
		{[]*report.Frame{libc("__alloc_dir"), libc("opendir"), own("scan"), own("main")}, "scan", 2},
		{[]*report.Frame{libc("__libc_setup_tls"), libc("__libc_start_main_impl"), own("_start")}, "__libc_setup_tls", 0},
		{[]*report.Frame{own("xmalloc"), libc("__libc_start_call_main")}, "xmalloc", 0},
		{[]*report.Frame{own("compare"), libc("qsort"), own("main")}, "compare", 0},
		{[]*report.Frame{{Function: "std::basic_filebuf<char, std::char_traits<char> >::open(char const*, std::_Ios_Openmode)", Module: "/usr/lib/libstdc++.so.6"},
			{Function: "std::vague()", Module: "/usr/lib/libstdc++.so.6"}, own("load(char const*)")}, "load(char const*)", 2},
		{[]*report.Frame{own("grab_memory"), own("grabbed")}, "grabbed", 1},
		{[]*report.Frame{{Function: "take", Mangled: "_ZN2ns4PoolIiE4takeEv", Module: "/bin/program"}, own("use")}, "use", 1},
		{[]*report.Frame{own("malloc"), own("operator new(unsigned long)")}, "malloc", 0},
		{[]*report.Frame{nameless("/bin/program"), own("main")}, "0x1234", 0},
		{[]*report.Frame{nameless("/bin/program"), nameless("/bin/program"), own("palloc"), own("makeNode")}, "makeNode", 3},
		{[]*report.Frame{nameless("/lib/plugin.so"), own("palloc"), own("makeNode")}, "0x1234", 0},
		{[]*report.Frame{nameless("/bin/program"), own("fill"), own("palloc"), own("makeNode")}, "0x1234", 0},
		{[]*report.Frame{nameless(""), own("palloc"), own("makeNode")}, "0x1234", 0},
		{[]*report.Frame{own("node::NodeArrayBufferAllocator::Allocate(unsigned long)"), own("node::Buffer::New(v8::Isolate*, unsigned long)"), own("Builtins_CallApiCallback"),
			jit("JS:*createUnsafeBuffer node:internal/buffer:1056:28"), jit("JS:*allocUnsafeSlow node:buffer:414:50"), jit("JS:*load /srv/app.js:2:21")}, "JS:*load /srv/app.js:2:21", 5},
		{[]*report.Frame{own("node::Buffer::New(v8::Isolate*, unsigned long)"), own("Builtins_CallApiCallback"), own("Builtins_InterpreterEntryTrampoline")}, "node::Buffer::New(v8::Isolate*, unsigned long)", 0},
		{[]*report.Frame{own("os::malloc(unsigned long, MEMFLAGS)"), own("Unsafe_AllocateMemory0"), jit("[anon]"), own("JavaMain")}, "Unsafe_AllocateMemory0", 1},
		{[]*report.Frame{own("Unsafe_AllocateMemory0"), jit("void java.nio.DirectByteBuffer.<init>(int)"), jit("Interpreter")}, "void java.nio.DirectByteBuffer.<init>(int)", 1},
		{[]*report.Frame{own("Unsafe_AllocateMemory0"), jit("void java.nio.DirectByteBuffer.<init>(int)"), jit("void App.load()"), jit("Interpreter")}, "void App.load()", 2},
		{[]*report.Frame{jit("[anon]"), own("main")}, "[anon]", 0},
	} {
		if got, at := a.functionOf(c.stack); got != c.want || at != c.at {
			t.Errorf("stack %d is called %s, frame %d; want %s, frame %d", i, got, at, c.want, c.at)
		}
	}
}

// thinSitesOf makes eight sites through a function, each with another caller and size.
func thinSitesOf(c *code, a *Analyzer, function string, size func(i int) uint64) {
	for i := range thinCallers {
		c.site(a, size(i), function, fmt.Sprintf("caller%d", i), "main")
	}
}

func manySizes(i int) uint64 { return 10 << i }

func TestWrappersShowInStacks(t *testing.T) {
	for _, test := range []struct {
		name, function string
		size           func(int) uint64
		before         [][]string // stacks of sites before
		want           bool
	}{
		{"a wrapper", "take_alloc", manySizes, nil, true},
		{"without a name", "0x1", manySizes, nil, true},
		{"one size: a constructor", "alloc_session", func(int) uint64 { return 96 }, nil, false},
		{"a name of its own", "strbuf_grow", manySizes, nil, false},
		{"it does other things", "take_alloc", manySizes, [][]string{{"lookup", "take_alloc", "main"}}, false},
		{"it calls from everywhere", "take_alloc", manySizes, [][]string{
			{"take_alloc@1", "main"}, {"take_alloc@2", "main"}, {"take_alloc@3", "main"}}, false},
	} {
		a, c := newTestAnalyzer(t), &code{}
		for _, stack := range test.before {
			c.site(a, 1, stack...)
		}
		thinSitesOf(c, a, test.function, test.size)
		names := c.functions(a)[len(test.before):]
		for i, name := range names {
			if got := name == fmt.Sprintf("caller%d", i); got != test.want {
				t.Errorf("%s: site %d is called %s", test.name, i, name)
			}
		}
	}
}

// Seven callers are not enough; the eighth names all sites, and nothing that comes
// later takes that back. When Reports are made makes no difference.
func TestNamesDontFlap(t *testing.T) {
	const all = 40
	make := func(reports bool) (last []string) {
		a, c := newTestAnalyzer(t), &code{}
		changed := map[int]int{}
		for i := range all {
			switch {
			case i < 20:
				c.site(a, manySizes(i%8), "take_alloc", fmt.Sprintf("caller%d", i))
			case i < 30:
				c.site(a, 1, fmt.Sprintf("other%d", i), "take_alloc", "main")
			default:
				c.site(a, 1, fmt.Sprintf("take_alloc@%d", i), "main")
			}
			if !reports {
				continue
			}
			names := c.functions(a)
			for id, name := range last {
				if name != names[id] {
					changed[id]++
				}
			}
			if want := "take_alloc"; i < thinCallers-1 && names[i] != want {
				t.Errorf("after %d callers site %d is called %s", i+1, i, names[i])
			}
			last = names
		}
		for id, n := range changed {
			if n > 1 {
				t.Errorf("the name of site %d changed %d times", id, n)
			}
		}
		return c.functions(a)
	}
	often, once := make(true), make(false)
	if fmt.Sprint(often) != fmt.Sprint(once) {
		t.Errorf("with a Report after each site they are called\n%v, with one at the end\n%v", often, once)
	}
	if once[0] != "caller0" || once[25] != "other25" || once[35] != "main" {
		t.Errorf("got %v", once)
	}
}

// Fingerprints go by the stack alone: baselines of earlier versions match.
func TestFingerprintsStayAsTheyWere(t *testing.T) {
	a, c := newTestAnalyzer(t), &code{}
	c.site(a, 10, "zmalloc", "createObject", "main")
	r := a.reportAt(testStart+10_000, ReportOptions{}, c)
	r.Leaks = []report.Leak{{Site: 0, Kind: "definite"}, {Site: 0, Kind: "growing"}}
	r.Identify()
	// As version 1 of fingerprints has them: SHA-256 of "memtrace leak 1\nleak\nzmalloc\ncreateObject\nmain\n".
	for i, want := range []string{"cfc195ba7fb925118c06e8b946a6da1e", "b0fee3cc7d63fb7ac178c8c147b6d1b1"} {
		if got := r.Leaks[i].Fingerprint; got != want {
			t.Errorf("%s leak has the fingerprint %s, want %s", r.Leaks[i].Kind, got, want)
		}
	}
	if r.Sites[0].Function != "createObject" || r.Sites[0].FunctionFrame != 1 || len(r.Sites[0].Stack) != 3 {
		t.Errorf("the site is %s, frame %d of %d", r.Sites[0].Function, r.Sites[0].FunctionFrame, len(r.Sites[0].Stack))
	}
}

// To name a stack can take long: a Report that is not the last asks for no more names by the rule
// on wrappers than without it, or a page of them where it shows fewer new stacks.
func TestFewNamesAreAskedForBeforeTheEnd(t *testing.T) {
	a, c := newTestAnalyzer(t), &code{}
	for i := range 2 * wrapperSites {
		c.site(a, uint64(i+1), fmt.Sprintf("f%d", i), "main")
	}
	asked := func(opt ReportOptions) int {
		n := counted{symbolizer: c}
		a.reportAt(testStart+10_000, opt, &n)
		return n.stacks
	}
	for i, want := range []int{20, namesAhead, namesAhead} {
		if n := asked(ReportOptions{Top: 20}); n != want {
			t.Errorf("Report %d asked for names of %d stacks, want %d", i+1, n, want)
		}
	}
	known := 20 + 2*namesAhead // those shown are the largest, and so the last
	if n := asked(ReportOptions{Top: 20, Final: true}); n != wrapperSites+mergedAmong-known {
		t.Errorf("the last Report asked for names of %d stacks, want %d", n, wrapperSites+mergedAmong-known)
	}
}

// counted counts the stacks that it is asked to name.
type counted struct {
	symbolizer
	stacks int
}

func (n *counted) Frames(pid int, addrs []uint64, at uint64) []*report.Frame {
	n.stacks++
	return n.symbolizer.Frames(pid, addrs, at)
}
