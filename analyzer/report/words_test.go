package report

import "testing"

func TestSiteFunction(t *testing.T) {
	for _, c := range []struct {
		stack []string
		want  string
	}{
		{[]string{"main"}, "main"},
		{[]string{"malloc", "xmalloc", "main"}, "xmalloc"},
		{[]string{"operator new[](unsigned long)", "f()"}, "f()"},
		{[]string{"operator new(unsigned long, std::align_val_t)", "f()"}, "f()"},
		{[]string{"operator new(unsigned long)", "std::__new_allocator<int>::allocate(unsigned long, void const*)",
			"std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned long)",
			"std::vector<int, std::allocator<int> >::reserve(unsigned long)"}, "std::vector<int, std::allocator<int> >::reserve(unsigned long)"},
		{[]string{"__rust_alloc", "alloc::alloc::alloc", "alloc::raw_vec::RawVec<T,A>::reserve", "app::main"}, "app::main"},
		{[]string{"operator newline()", "main"}, "operator newline()"},
		{[]string{"malloc", "operator new(unsigned long)"}, "malloc"},
		{nil, "[no stack]"},
	} {
		var stack []*Frame
		for _, f := range c.stack {
			stack = append(stack, &Frame{Function: f})
		}
		if got := SiteFunction(stack); got != c.want {
			t.Errorf("site of %q is %q, want %q", c.stack, got, c.want)
		}
	}
}

func TestHumanUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{HumanBytes(0.4), "0.40 B"}, {HumanBytes(512), "512 B"},
		{HumanBytes(12_700), "12.4 KiB"}, {HumanBytes(1 << 20), "1.00 MiB"},
		{HumanTime(1_234_567_890), "1.23s"}, {HumanTime(3_200), "3.2µs"}, {HumanTime(123_456_789_000), "2m3s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
