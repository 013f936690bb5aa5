package launch

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The signals that a program's caller has it ignore, as nohup and a shell's
// trap '' do, are ignored across exec. Before main, Go's runtime puts handlers
// of its own in their place, and the kernel does not tell what was there before.
// The runtime has noted it, for each signal a word that is SIG_DFL or SIG_IGN, but
// nobody outside of it may name that variable. So it is found by what it holds: the
// runtime notes again what it finds whenever it takes a signal over, and by having it
// do so with a pattern of signals ignored, that pattern appears there.

const (
	maxSignal = 64
	firstReal = 35 // the first real-time signal that C libraries and the runtime leave to programs
	ignored   = 1  // SIG_IGN

	// noticed are the real-time signals of the pattern, from firstReal on: a row of bits
	// that is not like itself anywhere else.
	noticed = 0b101001110101100010111100010011
)

// ErrIgnoredUnknown: it is not known which signals this process was started to ignore.
var ErrIgnoredUnknown = errors.New("the runtime's note of the signals that were ignored at its start was not found")

// Ignored returns the signals that this process was started to ignore, ascending.
// Real-time signals that arrive during the first call are lost, and nobody else may
// be asking for them.
var Ignored = sync.OnceValues(readIgnored)

func readIgnored() ([]unix.Signal, error) {
	start, size, err := zeroed()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIgnoredUnknown, err)
	}
	before, err := ownWords(start, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIgnoredUnknown, err)
	}
	var pattern []os.Signal
	for number := firstReal; number <= maxSignal; number++ {
		if inPattern(number) {
			pattern = append(pattern, unix.Signal(number))
		}
	}
	signal.Ignore(pattern...)
	c := make(chan os.Signal, len(pattern))
	signal.Notify(c, pattern...)
	signal.Stop(c)
	after, err := ownWords(start, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIgnoredUnknown, err)
	}
	return findIgnored(before, after)
}

func inPattern(number int) bool { return number >= firstReal && noticed>>(number-firstReal)&1 != 0 }

// findIgnored finds the one place where the pattern has appeared, and tells which
// signals were ignored there before.
func findIgnored(before, after []uint64) (signals []unix.Signal, err error) {
	places := 0
	for i := 0; i+maxSignal < min(len(before), len(after)); i++ {
		if !isNote(before[i:i+maxSignal+1], after[i:i+maxSignal+1]) {
			continue
		}
		places++
		signals = nil
		for number := 1; number <= maxSignal; number++ {
			if before[i+number] == ignored {
				signals = append(signals, unix.Signal(number))
			}
		}
	}
	if places != 1 {
		return nil, fmt.Errorf("%w: %d places are like it", ErrIgnoredUnknown, places)
	}
	return signals, nil
}

// isNote reports whether words, by signal, are SIG_DFL or SIG_IGN, and have changed as the pattern has them.
func isNote(before, after []uint64) bool {
	for number := range before {
		want := before[number]
		if inPattern(number) {
			want = ignored
		}
		if before[number] > ignored || after[number] != want {
			return false
		}
	}
	return before[0] == 0 && before[unix.SIGKILL] == 0 && before[unix.SIGSTOP] == 0
}

// zeroed is where this program keeps the variables that are zero at first and hold no pointers.
func zeroed() (start uintptr, size uint64, err error) {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	s := f.Section(".noptrbss")
	if s == nil {
		return 0, 0, errors.New("the program has no section .noptrbss")
	}
	auxv, err := unix.Auxv()
	if err != nil {
		return 0, 0, err
	}
	const atEntry = 9 // getauxval(3)
	i := slices.IndexFunc(auxv, func(v [2]uintptr) bool { return v[0] == atEntry })
	if i < 0 {
		return 0, 0, errors.New("the kernel did not say where the program is")
	}
	return auxv[i][1] - uintptr(f.Entry) + uintptr(s.Addr), min(s.Size, maxZeroed), nil
}

// maxZeroed is how much is looked at: the linker puts small variables first, and this one, of 520 bytes, is in the first
// 16 KiB. Each page of more would cost a page fault or two.
const maxZeroed = 64 << 10

// ownWords reads words of this process's memory.
func ownWords(start uintptr, size uint64) ([]uint64, error) {
	bytes := make([]byte, size&^7)
	local := unix.Iovec{Base: unsafe.SliceData(bytes)}
	local.SetLen(len(bytes))
	n, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{local}, []unix.RemoteIovec{{Base: start, Len: len(bytes)}}, 0)
	if err != nil || n != len(bytes) {
		return nil, fmt.Errorf("read %d of %d bytes: %w", max(n, 0), len(bytes), err)
	}
	words := make([]uint64, len(bytes)/8)
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(bytes[8*i:])
	}
	return words, nil
}

// signalSet has bit s-1 of each signal s.
func signalSet(signals []unix.Signal) (set uint64) {
	for _, s := range signals {
		set |= 1 << (s - 1)
	}
	return set
}
