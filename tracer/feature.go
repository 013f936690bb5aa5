package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// A Feature is something that newer kernels can and older ones can't. Probe
// tries it once and remembers the answer: nil, an error that wraps
// ErrNotSupported, or another error where it could not be told.
type Feature struct {
	Name  string
	Since string // the kernel version that brought it, such as "6.6"
	Needs string // what else it takes, such as a configuration option; empty where the version says all
	Probe func() error
}

func feature(name, since, needs string, try func() error) Feature {
	return Feature{Name: name, Since: since, Needs: needs, Probe: sync.OnceValue(func() error {
		return classify(name, since, needs, withMemory(try))
	})}
}

// liftMemlock lifts the limit on locked memory, which BPF maps count against
// before 5.11.
var liftMemlock = sync.OnceValue(rlimit.RemoveMemlock)

func withMemory(try func() error) error {
	if err := liftMemlock(); err != nil {
		return fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	return try()
}

// classify sorts the answer of an attempt into the three that a probe gives.
func classify(name, since, needs string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("try %s: %w: %w", name, ErrNotPermitted, refused{err})
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, ErrNotSupported),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, errENOTSUPP),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, btf.ErrNotFound):
		if needs != "" {
			since += " with " + needs
		}
		return fmt.Errorf("%s (Linux %s) is %w: %w", name, since, ErrNotSupported, err)
	}
	return fmt.Errorf("try %s: %w", name, err)
}

// errENOTSUPP is what the kernel returns inside itself and now and then by mistake to us.
const errENOTSUPP = syscall.Errno(524)

// errLockdown: from 5.5 on the helper is there, but for a kernel in lockdown
// (security/lockdown/lockdown.c, LOCKDOWN_BPF_READ_KERNEL).
var errLockdown = fmt.Errorf("%w: the kernel is in lockdown, at the level \"confidentiality\", which only a boot without it lifts (lockdown=integrity allows memtrace)", unix.EPERM)

// The features that memtrace chooses its mechanisms by.
var (
	haveBTF = feature("BTF", "5.4", "CONFIG_DEBUG_INFO_BTF", func() error {
		_, err := kernelTypes.Kernel()
		return err
	})
	haveRingbuf = feature("BPF ring buffer", "5.8", "", func() error {
		return features.HaveMapType(ebpf.RingBuf)
	})
	haveReadKernel = feature("reading kernel memory from BPF", "5.5", "", func() error {
		err := features.HaveProgramHelper(ebpf.Kprobe, asm.FnProbeReadKernel)
		if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
			return errLockdown
		}
		return err
	})
	haveTaskStorage = feature("task storage in tracing programs", "5.12", "", func() error {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnTaskStorageGet)
	})
	haveAtomics = feature("BPF atomics that return a value", "5.12", "on arm64 5.18", tryAtomics)
	haveUprobe  = feature("perf-event uprobe", "4.17", "", func() error {
		return tryPerfUprobe(0)
	})
	haveCookie = feature("uprobe cookie", "5.15", "", func() error {
		return tryPerfUprobe(1)
	})
	haveUprobeMulti = feature("uprobe_multi", "6.6", "", func() error {
		return tryMultiLink(attachUprobeMulti)
	})
	haveUprobeSession = feature("uprobe session", "6.13", "", func() error {
		return tryMultiLink(attachUprobeSession)
	})
	haveKprobe = feature("kprobe on handle_mm_fault", "2.6.9", "CONFIG_KPROBES", func() error {
		return tryKprobe("handle_mm_fault")
	})
	haveFexit = feature("fexit on handle_mm_fault", "5.5", "CONFIG_FUNCTION_TRACER, not locked", func() error {
		return tryFexit("handle_mm_fault")
	})
	haveFaultRawTracepoint = feature("BTF tracepoint page_fault_user", "5.5", "x86 or RISC-V", func() error {
		return tryBTFTracepoint("page_fault_user")
	})
	haveTaskRegs = feature("user registers of a task in tracing programs", "5.15", "", func() error {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnTaskPtRegs)
	})
	haveFaultTracepoint = feature("tracepoint exceptions:page_fault_user", "3.13", "x86 or RISC-V, tracefs mounted", func() error {
		return tryTracepoint("exceptions", "page_fault_user")
	})
)

// Basics lists what memtrace cannot do without.
func Basics() []Feature { return []Feature{haveBTF, haveRingbuf, haveReadKernel} }

// WithoutProbes lists what a trace without probes cannot do without, beside a FaultSource.
func WithoutProbes() []Feature { return append(Basics(), haveTaskRegs) }

// Features lists what memtrace looks for, most basic first.
func Features() []Feature {
	return append(Basics(),
		haveUprobe, haveCookie, haveTaskStorage, haveAtomics,
		haveUprobeMulti, haveUprobeSession,
		haveKprobe, haveFexit, haveFaultRawTracepoint, haveFaultTracepoint, haveTaskRegs,
	)
}

// supported reports whether the kernel has a feature; the error says that it could not be told.
func supported(f Feature) (bool, error) {
	err := f.Probe()
	if errors.Is(err, ErrNotSupported) {
		return false, nil
	}
	return err == nil, err
}

func tryAtomics() error {
	exchange := asm.CmpXchg.Mem(asm.RFP, asm.R1, asm.DWord, -8)
	exchange.Constant = int64(asm.CmpXchg >> 8) // the library forgets it where it writes the instruction
	prog, err := newProgram(&ebpf.ProgramSpec{
		Name: "memtrace_probe", Type: ebpf.Kprobe, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R0, 0),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
			exchange,
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	if err != nil {
		return err
	}
	return prog.Close()
}

// emptyProgram loads a program that does nothing.
func emptyProgram(typ ebpf.ProgramType, attach ebpf.AttachType, to string) (*ebpf.Program, error) {
	return newProgram(&ebpf.ProgramSpec{
		Name:       "memtrace_probe",
		Type:       typ,
		AttachType: attach,
		AttachTo:   to,
		License:    "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
}

// ownText is a place in memtrace's own file that may be probed: its entry.
func ownText() (path string, offset uint64, err error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	offset, err = entryOffset(f)
	return "/proc/self/exe", offset, err
}

func tryMultiLink(attach ebpf.AttachType) error {
	prog, err := emptyProgram(ebpf.Kprobe, attach, "")
	if err != nil {
		return err
	}
	defer prog.Close()
	path, offset, err := ownText()
	if err != nil {
		return err
	}
	l, err := attachMulti(prog, attach, false, path, uint32(os.Getpid()), []multiPlace{{offset: offset}})
	if err != nil {
		return err
	}
	return l.Close()
}

func tryPerfUprobe(cookie uint64) error {
	prog, err := emptyProgram(ebpf.Kprobe, ebpf.AttachNone, "")
	if err != nil {
		return err
	}
	defer prog.Close()
	path, offset, err := ownText()
	if err != nil {
		return err
	}
	ex, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	l, err := ex.Uprobe("", prog, &link.UprobeOptions{Address: offset, PID: os.Getpid(), Cookie: cookie})
	if err != nil {
		return err
	}
	return l.Close()
}

// tryKprobe needs no tracefs: perf events make kprobes since 4.17.
func tryKprobe(symbol string) error {
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); err != nil {
		return err
	}
	prog, err := emptyProgram(ebpf.Kprobe, ebpf.AttachNone, "")
	if err != nil {
		return err
	}
	defer prog.Close()
	l, err := link.Kprobe(symbol, prog, nil)
	if err != nil {
		return err
	}
	return l.Close()
}

func tryFexit(function string) error {
	prog, err := emptyProgram(ebpf.Tracing, ebpf.AttachTraceFExit, function)
	if errors.Is(err, unix.EPERM) && tryBTFTracepoint("sched_process_exit") == nil {
		// We may load tracing programs, only not this one: the kernel's
		// function tracing is locked, as a lockdown or a hardened build does.
		return fmt.Errorf("the kernel refuses to patch its functions: %w", ErrNotSupported)
	}
	if err != nil {
		return err
	}
	defer prog.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		return err
	}
	return l.Close()
}

func tryBTFTracepoint(name string) error {
	prog, err := emptyProgram(ebpf.Tracing, ebpf.AttachTraceRawTp, name)
	if err != nil {
		return err
	}
	defer prog.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		return err
	}
	return l.Close()
}

// tryTracepoint needs tracefs, which tells the tracepoint's number.
func tryTracepoint(group, name string) error {
	if !tracefsMounted() {
		return fmt.Errorf("tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing): %w", ErrNotSupported)
	}
	prog, err := emptyProgram(ebpf.TracePoint, ebpf.AttachNone, "")
	if err != nil {
		return err
	}
	defer prog.Close()
	l, err := link.Tracepoint(group, name, prog, nil)
	if err != nil {
		return err
	}
	return l.Close()
}

// entryOffset reads the file offset of an ELF file's entry point.
func entryOffset(f *os.File) (uint64, error) {
	var head [64]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return 0, fmt.Errorf("read ELF header of %s: %w", f.Name(), err)
	}
	entry := binary.NativeEndian.Uint64(head[24:])
	at, size, n := binary.NativeEndian.Uint64(head[32:]), binary.NativeEndian.Uint16(head[54:]), binary.NativeEndian.Uint16(head[56:])
	for i := range uint64(n) {
		var ph [56]byte
		if _, err := f.ReadAt(ph[:], int64(at+i*uint64(size))); err != nil {
			return 0, fmt.Errorf("read program header of %s: %w", f.Name(), err)
		}
		vaddr, filesz := binary.NativeEndian.Uint64(ph[16:]), binary.NativeEndian.Uint64(ph[32:])
		if binary.NativeEndian.Uint32(ph[:]) == 1 && entry >= vaddr && entry-vaddr < filesz {
			return entry - vaddr + binary.NativeEndian.Uint64(ph[8:]), nil
		}
	}
	return 0, fmt.Errorf("find the entry point of %s: no segment holds it", f.Name())
}

func tracefsMounted() bool {
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err := os.Stat(dir + "/events"); err == nil {
			return true
		}
	}
	return false
}
