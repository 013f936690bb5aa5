//go:build amd64

package probe

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

func TestParseUserFunctions(t *testing.T) {
	for text, want := range map[string]UserFunction{
		"my_alloc:size=1,ret":      {Symbol: "my_alloc", Shape: Malloc, Args: [3]uint8{2}},
		"my_alloc:size=0":          {Symbol: "my_alloc", Shape: Malloc, Args: [3]uint8{1}},
		"a:size=1*3":               {Symbol: "a", Shape: Calloc, Args: [3]uint8{2, 4}},
		"a:ptr=2, size=5":          {Symbol: "a", Shape: Realloc, Args: [3]uint8{3, 6}},
		"a:ptr=0,size=1*2,ret":     {Symbol: "a", Shape: Reallocarray, Args: [3]uint8{1, 2, 3}},
		"a:out=0,size=2":           {Symbol: "a", Shape: PosixMemalign, Args: [3]uint8{1, 3}},
		"libx.so!_ZN1a1bEv:size=0": {Object: "libx.so", Symbol: "_ZN1a1bEv", Shape: Malloc, Args: [3]uint8{1}},
		"/opt/x/lib+0x12f0:size=0": {Object: "/opt/x/lib", Addr: 0x12f0, Shape: Malloc, Args: [3]uint8{1}},
		"libc++.so.1+0xab:size=0":  {Object: "libc++.so.1", Addr: 0xab, Shape: Malloc, Args: [3]uint8{1}},
		"ns::alloc:size=0":         {Symbol: "ns::alloc", Shape: Malloc, Args: [3]uint8{1}},
		"a:pool=0,size=1":          {Symbol: "a", Shape: PoolAlloc, Args: [3]uint8{2, 1}},
		"a:size=0,pool=Current":    {Symbol: "a", Shape: PoolCurrent, Args: [3]uint8{1}, Pool: poolUse{variable: "Current"}},
	} {
		want.Text = text
		if got, err := ParseAllocFunction(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	if got, err := ParseFreeFunction("x!f:ptr=1"); err != nil || got.Shape != Release || got.Args != [3]uint8{2} || got.Object != "x" {
		t.Errorf("x!f:ptr=1: %+v, %v", got, err)
	}
	for text, change := range map[string]event.Change{"end:pool=1": event.PoolEnded, "end:pool=1,reset": event.PoolCleared} {
		if got, err := ParseFreeFunction(text); err != nil || got.Shape != PoolChange || got.Args != [3]uint8{2} || got.Pool.change != change {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"f:pool=0,ptr=1", "f:reset,ptr=1", "f:pool=Current", "f:reset"} {
		if got, err := ParseFreeFunction(text); err == nil || !strings.Contains(err.Error(), "want ptr=N") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"a:size=0,pool=1,out=2": "pool goes with", "a:size=0*1,pool=2": "pool goes with", "a:size=0,pool=": "from 0 to 5",
		"my_alloc": "FUNCTION:size=N", "a:": "none of", "a:ret": "which argument is the size", "a:size=6": "from 0 to 5",
		"a:size=-1": "from 0 to 5", "a:size=x": "from 0 to 5", "a:size=1*2*3": "want size=N", "a:size=0,size=1": "twice",
		"a:size=0,out=1,ret": "goes with", "a:size=0*1,out=2": "goes with", "!a:size=0": "lacks", "a!:size=0": "lacks",
		"a+0xzz:size=0": "no address", "a:size=0,ret=1": "no value", "a:size=0,free": "none of", "a:size=0,out=1*2": "want out=N",
	} {
		if f, err := ParseAllocFunction(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v; want an error that says %q", text, f, err, says)
		}
	}
	if _, err := ParseFreeFunction("f:size=1"); err == nil {
		t.Error("a free function without its block")
	}
}

// Of an address it must be certain that a function begins there.
func TestUserFunctionByAddress(t *testing.T) {
	source := ".text\n" + asmFunction("mine", ".cfi_startproc\npush %rbx\nnop\npop %rbx\nret\n.cfi_endproc") + asmFunction("_start", "ret")
	for _, strip := range []bool{false, true} {
		program := link(t, source, "-shared", "-Wl,--eh-frame-hdr")
		at := symbolAt(t, program, "mine")
		if strip {
			run(t, "strip", "-s", "-R", ".dynsym", program)
		}
		for addr, want := range map[uint64]int{at: 1, at + 1: 0, at + 1<<30: 0} {
			o := inspectAsked(t, program, UserFunction{Object: "code", Addr: addr, Shape: Malloc, Args: [3]uint8{1}})
			if len(o.Probes) != want || len(o.Skipped) != 1-want {
				t.Errorf("stripped %v, %#x (the function is at %#x): probes %+v, skipped %+v; want %d probes", strip, addr, at, o.Probes, o.Skipped, want)
			}
		}
	}
	program := link(t, source, "-shared")
	if o := inspectAsked(t, program, UserFunction{Object: "other", Symbol: "mine", Shape: Malloc, Args: [3]uint8{1}}); len(o.Probes) != 0 {
		t.Errorf("another file's function: %+v", o.Probes)
	}
}

func TestParseUserMarks(t *testing.T) {
	for text, want := range map[string]UserFunction{
		"usdt:my_pool:alloc:block=0,size=1":            {Mark: "my_pool:alloc", Shape: MarkAlloc, Args: [3]uint8{1, 2}},
		"usdt:p:n:size=11,block=6,weight=2":            {Mark: "p:n", Shape: MarkAlloc, Args: [3]uint8{7, 12, 3}},
		"/usr/lib/libp.so!usdt:p:alloc:block=1,size=0": {Object: "/usr/lib/libp.so", Mark: "p:alloc", Shape: MarkAlloc, Args: [3]uint8{2, 1}},
	} {
		want.Text = text
		if got, err := ParseAllocFunction(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	if got, err := ParseFreeFunction("x!usdt:p:free:ptr=1"); err != nil || got.Shape != MarkFree || got.Args != [3]uint8{2} || got.Mark != "p:free" || got.Object != "x" || got.Symbol != "" {
		t.Errorf("x!usdt:p:free:ptr=1: %+v, %v", got, err)
	}
	for text, says := range map[string]string{
		"usdt:p:n:block=0": "which arguments", "usdt:p:n:size=0": "which arguments", "usdt:p:n:block=0,size=1*2": "which arguments",
		"usdt:p:n:block=0,size=12": "from 0 to 11", "usdt:p:n:block=0,size=1,ret": "none of", "usdt:p:block=0,size=1": "PROVIDER:NAME",
		"usdt::n:block=0,size=1": "PROVIDER:NAME", "usdt:p::block=0,size=1": "PROVIDER:NAME", "usdt:a:b:c:block=0,size=1": "PROVIDER:NAME",
		"usdt:p:n:block=0,size=1,weight=x": "from 0 to 11", "!usdt:p:n:block=0,size=1": "lacks",
	} {
		if f, err := ParseAllocFunction(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v; want an error that says %q", text, f, err, says)
		}
	}
	for _, text := range []string{"usdt:p:n:block=0", "usdt:p:n", "usdt:p:n:", "usdt:p:n:pool=0"} {
		if f, err := ParseFreeFunction(text); err == nil {
			t.Errorf("%s: %+v", text, f)
		}
	}
}
