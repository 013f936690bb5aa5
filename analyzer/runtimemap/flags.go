//go:build linux && !viewer

package runtimemap

import (
	"errors"
	"fmt"
)

// maxFlags bounds a JVM's table of flags; OpenJDK 17 has 1,270.
const maxFlags = 1 << 13

// perfMapSince is the first JDK whose JVM has Compiler.perfmap. Some older ones that have begun to listen print their
// threads at SIGQUIT, whatever file there is.
const perfMapSince = 17

// errNoFlag: a JVM of another kind than is known.
var errNoFlag = errors.New("its table of flags has no such flag")

// Answers says whether a JVM answers those who attach to it (jcmd), and can write the names of its code: nil, or why
// it doesn't. It may be starting yet, and answer later where starting is true.
func (r *Runtime) Answers() (starting bool, err error) {
	j, ok := r.kind.(*jvm)
	if !ok {
		return false, errors.New("it is no JVM")
	}
	if j.major > 0 && j.major < perfMapSince {
		return false, fmt.Errorf("it is of JDK %d and has no Compiler.perfmap: JDK %d and newer have",
			j.major, perfMapSince)
	}
	j.memory.clear(jvmRoom)
	defer j.memory.forget()
	if heap := j.static("Universe", "_collectedHeap"); heap == 0 {
		return true, errStarting
	}
	for _, name := range []string{"DisableAttachMechanism", "ReduceSignalUsage"} {
		set, err := j.flag(name)
		if err != nil {
			return false, fmt.Errorf("look whether the JVM was started with -XX:+%s: %w", name, err)
		}
		if set {
			return false, fmt.Errorf("it was started with -XX:+%s", name)
		}
	}
	return false, nil
}

// flag reads a flag that is true or false.
func (j *jvm) flag(name string) (bool, error) {
	m, s := &j.memory, j.structs
	if !s.has("JVMFlag", "flags") || !s.has("JVMFlag", "numFlags") || j.flagSize == 0 {
		return false, errNoFlag
	}
	flags := j.static("JVMFlag", "flags")
	for i := range min(j.static("JVMFlag", "numFlags"), maxFlags) {
		at := flags + i*j.flagSize
		if m.text(m.word(at+s.of("JVMFlag", "_name")), maxNameBytes) == name {
			value := m.byteAt(m.word(at + s.of("JVMFlag", "_addr")))
			return value != 0, m.err
		}
		if m.err != nil {
			return false, m.err
		}
	}
	return false, errNoFlag
}
