package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrPatched: code around a probe's place is not what the file has. The kernel puts a breakpoint over whatever stands there, and
// runs the file's instruction in its stead.
var ErrPatched = errors.New("its code in memory is not that of the file (a hooking library, a hot patch or a debugger's breakpoint), so that a probe there would break the program")

// patchSpan is how much code is compared at a function's entry and at a probe's place: jumps that hooks write take 5 to 16 bytes.
const patchSpan = 16

// Unpatched returns those of a process's objects whose code is that of their files, and of the others why they are not to be
// probed. A process that is gone has none of the latter. Root is where the proc file system is mounted. attached says that
// they have our own breakpoints by now.
func Unpatched(root string, pid int, objects []Object, attached bool) (unpatched []Object, reasons []error) {
	if len(objects) == 0 {
		return nil, nil
	}
	memory, err := os.Open(filepath.Join(memoryDir(root, pid), "mem"))
	if err != nil {
		return objects, nil // attaching to it says why
	}
	defer memory.Close()
	debugged := !attached && isDebugged(root, pid)
	for _, o := range objects {
		if err := o.unchanged(memory, debugged); err != nil {
			reasons = append(reasons, err)
			continue
		}
		unpatched = append(unpatched, o)
	}
	return unpatched, reasons
}

// isDebugged reports whether anybody has a process under ptrace but we and others like us, who set no breakpoints by it.
func isDebugged(root string, pid int) bool {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "status"))
	if err != nil {
		return false // it is gone
	}
	for line := range strings.Lines(string(text)) {
		if tracer, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			tracer = strings.TrimSpace(tracer)
			return tracer != "0" && !isLikeUs(root, tracer)
		}
	}
	return false
}

func isLikeUs(root, pid string) bool {
	us, err := os.Stat(filepath.Join(root, "self", "exe"))
	if err != nil {
		return false
	}
	its, err := os.Stat(filepath.Join(root, pid, "exe"))
	return err == nil && os.SameFile(us, its)
}

// unchanged compares the code around all places of an object's probes with the file. memory is the process's, at its addresses.
// debugged says that somebody else has the process under ptrace, whose breakpoints look like those of probes on amd64. The
// error is ErrPatched, with the function, where code is not the file's; or that of reading, unless the process has ended.
func (o *Object) unchanged(memory io.ReaderAt, debugged bool) error {
	for i := range o.Probes {
		p := &o.Probes[i]
		for _, at := range append([]uint64{p.Entry, p.Offset}, p.Returns...) {
			if err := o.compare(memory, at, debugged); err != nil {
				return fmt.Errorf("%s in %s: %w", p.Name, o.Path, err)
			}
		}
	}
	return nil
}

// compare compares the code at one offset of the file with each of its mappings.
func (o *Object) compare(memory io.ReaderAt, offset uint64, debugged bool) error {
	var want, got [patchSpan]byte
	n, err := o.File.ReadAt(want[:], int64(offset))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the file: %w", err)
	}
	for _, r := range o.Text {
		if offset < r.Offset || offset-r.Offset >= r.End-r.Start {
			continue
		}
		size := min(uint64(n), r.End-r.Start-(offset-r.Offset))
		if _, err := memory.ReadAt(got[:size], int64(r.Start+offset-r.Offset)); err != nil {
			// No memory is left, or none there: the process has ended, or executed another program since it was looked at.
			if errors.Is(exited(err), os.ErrProcessDone) || errors.Is(err, io.EOF) || errors.Is(err, unix.EIO) {
				return nil
			}
			return fmt.Errorf("read the process's memory: %w", err)
		}
		if !sameCode(want[:size], got[:size], debugged) {
			return ErrPatched
		}
	}
	return nil
}

// sameCode reports whether code in memory is that of the file but for breakpoints of probes, ours or others'.
func sameCode(file, memory []byte, debugged bool) bool {
	if runtime.GOARCH == "arm64" {
		return sameWords(file, memory)
	}
	for i := 0; i < len(file); i++ {
		switch {
		case file[i] == memory[i]:
		case memory[i] == int3 && !debugged:
		case memory[i] == callNear && bytes.HasPrefix(file[i:], nop5): // as 6.18 has it where nothing else can be there
			i += len(nop5) - 1
		default:
			return false
		}
	}
	return true
}

const (
	int3     = 0xcc
	callNear = 0xe8
	// uprobeBreak is arm64's breakpoint for probes; debuggers use other immediates.
	uprobeBreak = 0xd4200000 | 5<<5
)

var nop5 = []byte{0x0f, 0x1f, 0x44, 0, 0}

func sameWords(file, memory []byte) bool {
	for ; len(file) >= 4; file, memory = file[4:], memory[4:] {
		if word := binary.LittleEndian.Uint32(memory); word != binary.LittleEndian.Uint32(file) && word != uprobeBreak {
			return false
		}
	}
	return true
}
