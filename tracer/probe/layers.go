package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// layer is an allocator that a well-known program or runtime has over malloc.
type layer struct {
	allocs, frees []string
	// thin is the largest size of its functions, in bytes of code, where they
	// only pass on to an allocator that others reach through them. Compilers
	// that inlined that into them have inlined it elsewhere too, where it is
	// not seen.
	thin   uint64
	remedy string
}

// layers are those that may be named.
var layers = map[string]layer{
	// CPython, Objects/obmalloc.c: pymalloc and its arenas are within these.
	"python": {
		allocs: []string{
			"PyObject_Malloc:size=0", "PyObject_Calloc:size=0*1", "PyObject_Realloc:ptr=0,size=1",
			"PyMem_Malloc:size=0", "PyMem_Calloc:size=0*1", "PyMem_Realloc:ptr=0,size=1",
		},
		frees:  []string{"PyObject_Free:ptr=0", "PyMem_Free:ptr=0"},
		thin:   96,
		remedy: "start the program with PYTHONMALLOC=malloc in its environment and trace malloc",
	},
}

// Layers names the layers that Layer knows.
func Layers() []string { return slices.Sorted(maps.Keys(layers)) }

// Layer returns the functions of a layer.
func Layer(name string) ([]UserFunction, error) {
	l, ok := layers[name]
	if !ok {
		return nil, fmt.Errorf("%q is none of %s", name, strings.Join(Layers(), ", "))
	}
	var all []UserFunction
	add := func(texts []string, parse func(string) (UserFunction, error)) error {
		for _, text := range texts {
			f, err := parse(text)
			if err != nil {
				return fmt.Errorf("layer %s: %w", name, err)
			}
			f.Layer = name
			all = append(all, f)
		}
		return nil
	}
	if err := add(l.allocs, ParseAllocFunction); err != nil {
		return nil, err
	}
	if err := add(l.frees, ParseFreeFunction); err != nil {
		return nil, err
	}
	return all, nil
}

// inlined says why a function of a layer would not show all, "" if it would.
func (f UserFunction) inlined(size uint64) string {
	l := layers[f.Layer]
	if l.thin == 0 || size <= l.thin {
		return ""
	}
	return "the compiler has inlined the allocator, here and elsewhere, so that not all would be seen: " + l.remedy
}
