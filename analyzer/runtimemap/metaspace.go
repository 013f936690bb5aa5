//go:build linux && !viewer

package runtimemap

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// rootChunk is the unit in which HotSpot hands out metaspace, and to which it aligns it (JEP 387); it was made larger later.
	rootChunk = 4 << 20
	// maxClasses bounds a walk of the classes, maxChunks what it finds.
	maxClasses, maxChunks = 1 << 20, 1 << 14
	// A walk that took t is not done again before walkRest × t.
	walkRest = 50
)

// errClasses: the JVM lists more than it can have, or than is read.
var errClasses = errors.New("the JVM lists more classes than memtrace reads")

// classes says where class metadata lies. Each class has a Klass in the class space, or in metaspace where there is none, and
// an InstanceKlass a ConstantPool in metaspace, which points back to it. So what such a pair lies in is metaspace.
func (j *jvm) classes() []Part {
	if j.major != 0 && j.major < elasticMetaspace {
		return nil
	}
	if !j.walked.IsZero() && time.Since(j.walked) < j.rest {
		return j.metaspace
	}
	began := time.Now()
	var chunks map[uint64]bool
	if chunks, j.cut = j.walkClasses(); j.cut != nil {
		j.cut = fmt.Errorf("metaspace is not all: %w", j.cut)
	}
	j.walked = time.Now()
	j.rest = walkRest * j.walked.Sub(began)
	j.metaspace = j.metaspace[:0:0]
	for chunk := range chunks {
		j.metaspace = append(j.metaspace, Part{Kind: Metaspace, Start: chunk, End: chunk + rootChunk})
	}
	slices.SortFunc(j.metaspace, byStart)
	return j.metaspace
}

// walkClasses follows the lists of class loaders and of their classes. The JVM changes both meanwhile: what was freed
// still lies in metaspace. The error says why there may be more than was found.
func (j *jvm) walkClasses() (chunks map[uint64]bool, err error) {
	m, s := &j.memory, j.structs
	m.clear(metaspaceRoom)
	chunks = make(map[uint64]bool)
	left := maxClasses
	for loader := j.static("ClassLoaderDataGraph", "_head"); loader != 0 && left > 0 && m.err == nil; left-- {
		for klass := m.word(loader + s.of("ClassLoaderData", "_klasses")); klass != 0 && left > 0 && m.err == nil; left-- {
			if j.isClass(klass) {
				if len(chunks) >= maxChunks {
					return chunks, errClasses
				}
				chunks[klass&^(rootChunk-1)] = true
				chunks[m.word(klass+s.of("InstanceKlass", "_constants"))&^(rootChunk-1)] = true
			}
			klass = m.word(klass + s.of("Klass", "_next_link"))
		}
		loader = m.word(loader + s.of("ClassLoaderData", "_next"))
	}
	if m.err == nil && left <= 0 {
		return chunks, errClasses
	}
	return chunks, m.err
}

// isClass reports whether an InstanceKlass is at an address: its ConstantPool says so.
func (j *jvm) isClass(klass uint64) bool {
	m, s := &j.memory, j.structs
	if m.int32(klass+s.of("Klass", "_layout_helper")) <= 0 {
		return false // of an array
	}
	pool := m.word(klass + s.of("InstanceKlass", "_constants"))
	return pool != 0 && m.word(pool+s.of("ConstantPool", "_pool_holder")) == klass && m.err == nil
}
