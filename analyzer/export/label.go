package export

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// maxName bounds a name in what is written: C++ has names of tens of kilobytes, and
// each may stand in thousands of places.
const maxName = 2000

// clip makes a name safe to print and of bounded length.
func clip(s string) string {
	if len(s) > maxName {
		cut := maxName
		for cut > maxName-4 && s[cut]&0xc0 == 0x80 { // not within a character
			cut--
		}
		s = s[:cut] + "…"
	}
	return render.Clean(s)
}

// label is a frame's name. One without a name is called by its place in its file,
// which is the same in each run, rather than by its address.
func label(f *report.Frame) string {
	switch {
	case f.Function != "" && !strings.HasPrefix(f.Function, "0x"):
		return clip(f.Function)
	case f.Module != "":
		return fmt.Sprintf("[%s+0x%x]", clip(path.Base(f.Module)), f.Offset)
	case f.Function != "":
		return clip(f.Function)
	}
	return "[unknown]"
}

// source is "file:line" of a frame, "" where it is not known.
func source(f *report.Frame) string {
	if f.File == "" {
		return ""
	}
	if f.Line <= 0 {
		return clip(f.File)
	}
	return clip(f.File) + ":" + strconv.Itoa(f.Line)
}

// What stands for frames that there are none of.
const (
	cutLabel     = "[stack cut]"
	noStackLabel = "[no stack]"
)

// processLabel names the process that a stack belongs to.
func (s *stack) processLabel(pids bool) string {
	comm := s.comm()
	if !pids {
		return comm
	}
	return comm + " (" + strconv.Itoa(s.pid) + ")"
}

func (s *stack) comm() string {
	if s.process == nil || s.process.Comm == "" {
		return "[process]"
	}
	return clip(s.process.Comm)
}

// step is a frame as pictures have it: those of one function in one file are one.
type step struct{ label, module string }

// path is the stack from the process to the innermost frame.
func (s *stack) path(pids bool) []step {
	out := make([]step, 0, len(s.frames)+2)
	for i, text := range s.above() {
		if i == 0 && !pids {
			text = s.comm()
		}
		out = append(out, step{label: text})
	}
	for i := len(s.frames) - 1; i >= 0; i-- {
		out = append(out, step{label(s.frames[i]), clip(s.frames[i].Module)})
	}
	return out
}

// above is what stands before the frames in a path: the process with its PID, and what stands for frames that are missing.
func (s *stack) above() []string {
	out := []string{s.processLabel(true)}
	if s.truncated {
		out = append(out, cutLabel)
	}
	switch {
	case len(s.frames) > 0:
	case s.name != "":
		out = append(out, clip(s.name))
	default:
		out = append(out, noStackLabel)
	}
	return out
}

// Label is what all exports call a frame: safe to print, of bounded length, and never empty.
func Label(f *report.Frame) string { return label(f) }

// Clip makes any other name safe to print and of bounded length.
func Clip(s string) string { return clip(s) }
