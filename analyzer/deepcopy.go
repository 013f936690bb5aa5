package analyzer

import (
	"maps"
	"reflect"
	"sync"
	"unsafe"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A deepCopy copies a value with all that it points to, by the types alone: a field that an Analyzer gets later is
// copied, too. Pointers to one thing become pointers to one copy. Texts and frames never change, and are shared.
type deepCopy struct {
	done  map[copied]unsafe.Pointer // copies by what they are of
	todo  []unmended                // copies that were made, and are still to be mended
	bytes uint64                    // that the copies take, about

	// newChunk, if not nil, maps memory for the heaps of a copy that is to go on: such as Analyzer.Close frees.
	newChunk func(huge bool) (unsafe.Pointer, error)
	chunks   []unsafe.Pointer // that it mapped
	err      error            // why it has not mapped all
}

// copied is a thing that was copied. Its type is of it, as a struct and its first field have one address.
type copied struct {
	at unsafe.Pointer
	of reflect.Type
}

// unmended is a copy of what a pointer points to. It is mended later, as a program that replaces itself again and again makes a
// chain that is longer than a stack is deep.
type unmended struct {
	copier func() copier
	at     unsafe.Pointer
}

// A copier mends a copy that has the bits of what it is of: pointers in it are to point to copies.
type copier func(c *deepCopy, to unsafe.Pointer)

// copiers has the copiers of types that were asked for; nil: there is nothing to mend.
var copiers sync.Map

// ownCopier is that of a type that is not copied by what it is made of.
func ownCopier(t reflect.Type) (f copier, own bool) {
	switch t {
	case reflect.TypeFor[Config](), reflect.TypeFor[*report.Frame](), reflect.TypeFor[[]*report.Frame]():
		return nil, true
	case reflect.TypeFor[segmentPool]():
		return func(c *deepCopy, to unsafe.Pointer) { (*segmentPool)(to).deepCopied(c) }, true
	case reflect.TypeFor[stackStore]():
		return func(c *deepCopy, to unsafe.Pointer) { (*stackStore)(to).deepCopied(c) }, true
	}
	return nil, false
}

// quickCopier does the same as reflection for the largest maps, in a tenth of the time.
func quickCopier(t reflect.Type) copier {
	switch t {
	case reflect.TypeFor[map[event.StackID]stackRef]():
		return copyMap[event.StackID, stackRef]
	case reflect.TypeFor[map[event.StackID]siteID]():
		return copyMap[event.StackID, siteID]
	case reflect.TypeFor[map[uint64][]*report.Frame]():
		return copyMap[uint64, []*report.Frame]
	case reflect.TypeFor[map[uint64]nodeID]():
		return copyMap[uint64, nodeID]
	case reflect.TypeFor[map[uint64]uint64]():
		return copyMap[uint64, uint64]
	}
	return nil
}

// copierOf is the copier of a type.
func copierOf(t reflect.Type) copier {
	if f, ok := copiers.Load(t); ok {
		return f.(copier)
	}
	f, own := ownCopier(t)
	if !own {
		f = makeCopier(t)
	}
	copiers.Store(t, f)
	return f
}

func makeCopier(t reflect.Type) copier {
	switch t.Kind() {
	case reflect.Pointer:
		return pointerCopier(t.Elem())
	case reflect.Struct:
		return structCopier(t)
	case reflect.Array:
		return arrayCopier(t)
	case reflect.Slice:
		return sliceCopier(t)
	case reflect.Map:
		return mapCopier(t)
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		panic("an analyzer has a " + t.String() + ", which no copy can be made of")
	}
	return nil
}

func pointerCopier(elem reflect.Type) copier {
	inside := sync.OnceValue(func() copier { return copierOf(elem) }) // later, as types point to each other
	return func(c *deepCopy, to unsafe.Pointer) {
		p := (*unsafe.Pointer)(to)
		if *p == nil {
			return
		}
		key := copied{*p, elem}
		if there, ok := c.done[key]; ok {
			*p = there
			return
		}
		next := reflect.New(elem)
		next.Elem().Set(reflect.NewAt(elem, *p).Elem())
		*p = next.UnsafePointer()
		c.done[key] = *p
		c.bytes += uint64(elem.Size())
		c.todo = append(c.todo, unmended{inside, *p})
	}
}

// mend mends a copy, and all that it points to.
func (c *deepCopy) mend(t reflect.Type, to unsafe.Pointer) {
	c.todo = append(c.todo, unmended{func() copier { return copierOf(t) }, to})
	for len(c.todo) > 0 && c.err == nil {
		last := len(c.todo) - 1
		next := c.todo[last]
		c.todo = c.todo[:last]
		if f := next.copier(); f != nil {
			f(c, next.at)
		}
	}
}

func structCopier(t reflect.Type) copier {
	type field struct {
		offset uintptr
		copier copier
	}
	var fields []field
	for i := range t.NumField() {
		if f := copierOf(t.Field(i).Type); f != nil {
			fields = append(fields, field{t.Field(i).Offset, f})
		}
	}
	if fields == nil {
		return nil
	}
	return func(c *deepCopy, to unsafe.Pointer) {
		for _, f := range fields {
			f.copier(c, unsafe.Add(to, f.offset))
		}
	}
}

func arrayCopier(t reflect.Type) copier {
	f, size, n := copierOf(t.Elem()), t.Elem().Size(), t.Len()
	if f == nil {
		return nil
	}
	return func(c *deepCopy, to unsafe.Pointer) {
		for i := range n {
			f(c, unsafe.Add(to, uintptr(i)*size))
		}
	}
}

func sliceCopier(t reflect.Type) copier {
	f, size := copierOf(t.Elem()), t.Elem().Size()
	return func(c *deepCopy, to unsafe.Pointer) {
		s := reflect.NewAt(t, to).Elem()
		if s.IsNil() {
			return
		}
		next := reflect.MakeSlice(t, s.Len(), s.Len())
		reflect.Copy(next, s)
		s.Set(next)
		c.bytes += uint64(s.Len()) * uint64(size)
		if f == nil {
			return
		}
		for i := range s.Len() {
			f(c, unsafe.Add(next.UnsafePointer(), uintptr(i)*size))
		}
	}
}

func mapCopier(t reflect.Type) copier {
	if f := quickCopier(t); f != nil {
		return f
	}
	key, value := copierOf(t.Key()), copierOf(t.Elem())
	return func(c *deepCopy, to unsafe.Pointer) {
		m := reflect.NewAt(t, to).Elem()
		if m.IsNil() {
			return
		}
		next := reflect.MakeMapWithSize(t, m.Len())
		k, v := reflect.New(t.Key()), reflect.New(t.Elem())
		for i := m.MapRange(); i.Next(); {
			k.Elem().SetIterKey(i)
			v.Elem().SetIterValue(i)
			if key != nil {
				key(c, k.UnsafePointer())
			}
			if value != nil {
				value(c, v.UnsafePointer())
			}
			next.SetMapIndex(k.Elem(), v.Elem())
		}
		m.Set(next)
		c.bytes += mapBytes(m.Len(), t.Key().Size()+t.Elem().Size())
	}
}

func copyMap[K comparable, V any](c *deepCopy, to unsafe.Pointer) {
	m := (*map[K]V)(to)
	*m = maps.Clone(*m)
	c.bytes += mapBytes(len(*m), reflect.TypeFor[K]().Size()+reflect.TypeFor[V]().Size())
}

// mapBytes is what a map takes, about: a byte more for each entry, and half as many places again as entries.
func mapBytes(entries int, size uintptr) uint64 { return 48 + uint64(entries)*uint64(size+1)*3/2 }
