package report

import "strings"

// allocatorNames are functions that hand out memory on behalf of their caller:
// the C library's, and those of C++ and Rust.
var allocatorNames = map[string]bool{
	"malloc": true, "calloc": true, "realloc": true, "reallocarray": true,
	"posix_memalign": true, "aligned_alloc": true, "memalign": true, "valloc": true, "pvalloc": true,
	"__libc_malloc": true, "__libc_calloc": true, "__libc_realloc": true, "__libc_memalign": true,
	"malloc_hook_ini": true, "__rust_alloc": true, "__rust_alloc_zeroed": true, "__rust_realloc": true,
	"__rdl_alloc": true, "__rdl_alloc_zeroed": true, "__rdl_realloc": true, "exchange_malloc": true,
}

// allocatorPrefixes begin the names of more such functions: operator new, and
// what lies between it and a container's code.
var allocatorPrefixes = []string{
	"operator new(", "operator new[](",
	"std::allocator<", "std::allocator_traits<", "std::__new_allocator<",
	"__gnu_cxx::new_allocator<", "__gnu_cxx::__alloc_traits<",
	"std::__1::allocator<", "std::__1::allocator_traits<", "std::__1::__libcpp_allocate", "std::__1::__libcpp_operator_new",
	"alloc::alloc::", "<alloc::alloc::Global as ", "alloc::raw_vec::",
}

// SiteFunction returns the innermost function of a stack that is not itself a
// part of the allocator: the one a reader would call the site. Where all are,
// it is the innermost. A program in Python has its own functions for sites.
func SiteFunction(stack []*Frame) string {
	if f, _ := Interpreted(stack); f != nil {
		return f.Function
	}
	for i := range stack {
		if !IsAllocator(stack[i].Function) {
			return stack[i].Function
		}
	}
	if len(stack) == 0 {
		return "[no stack]"
	}
	return stack[0].Function
}

// IsAllocator reports whether a function hands out memory on behalf of its
// caller: malloc, operator new, and what lies between them and a container's code.
func IsAllocator(function string) bool {
	if allocatorNames[function] || function == "operator new" || function == "operator new[]" {
		return true
	}
	// A demangled template function bears its return type in front:
	// "void* std::allocator<int>::allocate(…)".
	function = strings.TrimPrefix(function, "void* ")
	for _, prefix := range allocatorPrefixes {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
