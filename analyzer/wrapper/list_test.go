package wrapper

import (
	"strings"
	"testing"
)

// TestListIsWellFormed: each line names a pattern and where it is from, once.
func TestListIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(listText) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, origin, ok := strings.Cut(line, " # ")
		if !ok || strings.TrimSpace(origin) == "" || pattern != strings.TrimSpace(pattern) {
			t.Errorf("%q is not PATTERN # ORIGIN", line)
		}
		if seen[pattern] {
			t.Errorf("%q is there twice", pattern)
		}
		seen[pattern] = true
		if !Known(strings.ReplaceAll(pattern, "*", "x")) {
			t.Errorf("%q does not match itself", pattern)
		}
	}
}

func TestKnown(t *testing.T) {
	for _, name := range []string{
		"malloc", "xmalloc", "zmalloc_usable", "g_malloc0_n", "CRYPTO_zalloc", "palloc0", "ngx_alloc", "apr_palloc",
		"ggc_internal_alloc", "PyMem_RawMalloc", "_PyObject_Malloc", "PyType_GenericAlloc", "xstrdup.part.0", "g_slice_alloc0",
		"operator new(unsigned long)", "operator new[](unsigned long, std::align_val_t)", "operator new",
		"operator new(unsigned long, std::nothrow_t const&)",
		"std::allocator<int>::allocate(unsigned long)",
		"void* std::allocator<int>::allocate<int>(unsigned long)",
		"__gnu_cxx::new_allocator<std::_Rb_tree_node<std::pair<int const, Foo> > >::allocate(unsigned long, void const*)",
		"std::_Vector_base<Foo, std::allocator<Foo> >::_M_allocate(unsigned long)",
		"void std::vector<Foo, std::allocator<Foo> >::_M_realloc_insert<Foo const&>(__gnu_cxx::__normal_iterator<Foo*, std::vector<Foo, std::allocator<Foo> > >, Foo const&)",
		"std::vector::_M_realloc_insert", // as --names short has it
		"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
		"std::__detail::_Map_base<int, std::pair<int const, int>, std::allocator<std::pair<int const, int> >, true>::operator[](int const&)",
		"std::__1::vector<int, std::__1::allocator<int> >::__push_back_slow_path[abi:v160006]<int>(int&&)",
		"std::_MakeUniq<Foo>::__single_object std::make_unique<Foo, int>(int&&)",
		"QArrayData::allocate(unsigned long, unsigned long, unsigned long, QFlags<QArrayData::AllocationOption>)",
		"QVector<Foo>::append(Foo const&)",
		"alloc::alloc::alloc", "alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::vec::Vec<T,A>::push",
		"<alloc::vec::Vec<T> as alloc::vec::spec_from_iter::SpecFromIter<T,I>>::from_iter",
		"<T as alloc::slice::hack::ConvertVec>::to_vec", "<str as alloc::string::ToString>::to_string",
		"hashbrown::raw::RawTable<T,A>::reserve_rehash",
		"long jdk.internal.misc.Unsafe.allocateMemory0(long)", "void java.nio.DirectByteBuffer.<init>(int)",
		"java.nio.ByteBuffer java.nio.ByteBuffer.allocateDirect(int)",
		"_cgo_1c9a2b_Cfunc__Cmalloc", "main._Cfunc__CMalloc", "_d_newclass", "swift_slowAlloc", "swift_allocObject",
		"llvm::SmallVectorBase<unsigned int>::grow_pod(void*, unsigned long, unsigned long)",
	} {
		if !Known(name) {
			t.Errorf("%q is not known (bare %q)", name, Bare(name))
		}
	}
}

// TestOwnFunctionsStay: what a program's authors wrote is no wrapper, however it looks.
func TestOwnFunctionsStay(t *testing.T) {
	for _, name := range []string{
		"", "main", "0x28961b", "createStringObject", "_sdsnewlen", "dictAddRaw", "new_keys_object", "alloc_session", "strbuf_grow",
		"alloc::Pool::get(int)", "allocate", "make_node", "Arena::insert(int)", "mallocate", "g_file_new_for_path",
		"my::vector<int>::push_back(int)", "std_vector_push", "Foo::operator()(std::vector<int, std::allocator<int> >&) const",
		"run(std::allocator<int>)", "std::vector<int, std::allocator<int> > load(char const*)",
		"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > greet[abi:cxx11](int)",
		"void std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()",
		"main::{lambda(std::vector<int, std::allocator<int> >&)#1}::operator()(std::vector<int, std::allocator<int> >&) const",
		"std::_Function_handler<void (), main::{lambda()#1}>::_M_invoke(std::_Any_data const&)",
		"Tree::operator new_node(int)", "<myapp::Foo as core::clone::Clone>::clone", "<myapp::Foo as core::iter::traits::iterator::Iterator>::next",
		"myapp::alloc::vec::build", "(anonymous namespace)::load(std::string const&)", "core::ops::function::FnOnce::call_once",
	} {
		if Known(name) {
			t.Errorf("%q counts as a wrapper (bare %q)", name, Bare(name))
		}
	}
}

func TestBare(t *testing.T) {
	for name, want := range map[string]string{
		"f": "f", "f.part.0": "f", "f.constprop.1.isra.0": "f", "f(int) [clone .cold]": "f", "": "",
		"operator new[](unsigned long)":                                     "operator new[]",
		"void* ns::operator new(unsigned long)":                             "ns::operator new",
		"std::ostream& std::operator<< <char>(std::ostream&, char)":         "std::operator<<",
		"bool ns::operator<(A<int> const&, B const&)":                       "ns::operator<",
		"A::operator()(int) const":                                          "A::operator()",
		"A::operator std::vector<int>() const":                              "A::operator std::vector",
		"int* (anonymous namespace)::make<int>(int)":                        "(anonymous namespace)::make",
		"A<(B)1>::f(C<(1>0)>)":                                              "A::f",
		"std::unique_ptr<A, std::default_delete<A> > make<A>(int (*)(int))": "make",
		"std::string::f[abi:cxx11](int)":                                    "std::string::f",
		"<A as B<C>>::d":                                                    "<A as B<C>>::d",
		"unbalanced<<<(((":                                                  "unbalanced", "f))>>x(": "fx",
	} {
		if got := Bare(name); got != want {
			t.Errorf("Bare(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestPatterns(t *testing.T) {
	var p Patterns
	for _, pattern := range []string{"grab", "my_*alloc", "ns::Pool::*", "*_new"} {
		if err := p.Add(pattern); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{
		"grab": true, "grab(unsigned long)": true, "grabber": false, "my_malloc": true, "my_alloc": true, "my_allocator": false,
		"ns::Pool<int>::take(int)": true, "ns::Pool": false, "node_new": true, "node_news": false, "": false,
	} {
		if got := p.Match(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for _, pattern := range []string{"", "*", "**", " * "} {
		if p.Add(pattern) == nil {
			t.Errorf("%q was taken", pattern)
		}
	}
	if (*Patterns)(nil).Match("malloc") {
		t.Error("no patterns match")
	}
}
