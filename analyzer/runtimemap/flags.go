//go:build linux && !viewer

package runtimemap

import (
	"errors"
	"fmt"
)

// maxFlags bounds a JVM's table of flags; OpenJDK 17 has 1,270.
const maxFlags = 1 << 13

// errNoFlag: a JVM of another kind than is known.
var errNoFlag = errors.New("its table of flags has no such flag")

// Answers says whether a JVM answers those who attach to it (jcmd): nil, or why it doesn't. It may be starting yet, and answer later where
// starting is true.
func (r *Runtime) Answers() (starting bool, err error) {
	j, ok := r.kind.(*jvm)
	if !ok {
		return false, errors.New("it is no JVM")
	}
	j.memory.clear(jvmRoom)
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
