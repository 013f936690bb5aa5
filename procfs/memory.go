package procfs

import "unsafe"

// Memory is what smaps and smaps_rollup tell about a mapping or a whole
// process, in bytes (Documentation/filesystems/proc.rst, "smaps"). Fields
// that a kernel doesn't have are zero. Memory adds up: see Add.
type Memory struct {
	Rss          uint64
	Pss          uint64
	PssDirty     uint64 // since Linux 6.0
	PssAnon      uint64 // smaps_rollup only, since Linux 5.4, as the next two
	PssFile      uint64
	PssShmem     uint64
	SharedClean  uint64
	SharedDirty  uint64
	PrivateClean uint64
	PrivateDirty uint64
	Referenced   uint64
	Anonymous    uint64 // the part of Rss that no file backs, pages copied on write included
	LazyFree     uint64 // the part of Anonymous given up by MADV_FREE and not yet taken
	AnonHuge     uint64 // the part of Anonymous in transparent huge pages
	Swap         uint64
	SwapPss      uint64
	Locked       uint64 // the part of Pss that is locked
	// SharedHugetlb and PrivateHugetlb are not part of Rss, Pss or USS.
	SharedHugetlb  uint64
	PrivateHugetlb uint64
}

// USS is the part of Rss that no other process maps: what ending the process
// would free at once.
func (m *Memory) USS() uint64 { return m.PrivateClean + m.PrivateDirty }

// Add adds o to m, field by field.
func (m *Memory) Add(o *Memory) {
	m.Rss += o.Rss
	m.Pss += o.Pss
	m.PssDirty += o.PssDirty
	m.PssAnon += o.PssAnon
	m.PssFile += o.PssFile
	m.PssShmem += o.PssShmem
	m.SharedClean += o.SharedClean
	m.SharedDirty += o.SharedDirty
	m.PrivateClean += o.PrivateClean
	m.PrivateDirty += o.PrivateDirty
	m.Referenced += o.Referenced
	m.Anonymous += o.Anonymous
	m.LazyFree += o.LazyFree
	m.AnonHuge += o.AnonHuge
	m.Swap += o.Swap
	m.SwapPss += o.SwapPss
	m.Locked += o.Locked
	m.SharedHugetlb += o.SharedHugetlb
	m.PrivateHugetlb += o.PrivateHugetlb
}

// field returns where the value of a line "key: N kB" goes, or nil.
func (m *Memory) field(key []byte) *uint64 {
	offset, ok := memoryField(key)
	if !ok {
		return nil
	}
	return m.at(offset)
}

// at is the field at an offset that memoryField gave. A closure for each field
// would do as well, but make each Memory escape.
func (m *Memory) at(offset uintptr) *uint64 { return (*uint64)(unsafe.Add(unsafe.Pointer(m), offset)) }

// memoryField is where a key's value is in a Memory.
func memoryField(key []byte) (offset uintptr, ok bool) {
	switch string(key) {
	case "Rss":
		return unsafe.Offsetof(Memory{}.Rss), true
	case "Pss":
		return unsafe.Offsetof(Memory{}.Pss), true
	case "Pss_Dirty":
		return unsafe.Offsetof(Memory{}.PssDirty), true
	case "Pss_Anon":
		return unsafe.Offsetof(Memory{}.PssAnon), true
	case "Pss_File":
		return unsafe.Offsetof(Memory{}.PssFile), true
	case "Pss_Shmem":
		return unsafe.Offsetof(Memory{}.PssShmem), true
	case "Shared_Clean":
		return unsafe.Offsetof(Memory{}.SharedClean), true
	case "Shared_Dirty":
		return unsafe.Offsetof(Memory{}.SharedDirty), true
	case "Private_Clean":
		return unsafe.Offsetof(Memory{}.PrivateClean), true
	case "Private_Dirty":
		return unsafe.Offsetof(Memory{}.PrivateDirty), true
	case "Referenced":
		return unsafe.Offsetof(Memory{}.Referenced), true
	case "Anonymous":
		return unsafe.Offsetof(Memory{}.Anonymous), true
	case "LazyFree":
		return unsafe.Offsetof(Memory{}.LazyFree), true
	case "AnonHugePages":
		return unsafe.Offsetof(Memory{}.AnonHuge), true
	case "Swap":
		return unsafe.Offsetof(Memory{}.Swap), true
	case "SwapPss":
		return unsafe.Offsetof(Memory{}.SwapPss), true
	case "Locked":
		return unsafe.Offsetof(Memory{}.Locked), true
	case "Shared_Hugetlb":
		return unsafe.Offsetof(Memory{}.SharedHugetlb), true
	case "Private_Hugetlb":
		return unsafe.Offsetof(Memory{}.PrivateHugetlb), true
	}
	return 0, false
}

// VMFlags are those of smaps' VmFlags line that have a use here.
type VMFlags uint8

const (
	FlagLocked    VMFlags = 1 << iota // lo
	FlagGrowsDown                     // gd: the first thread's stack
	FlagHugetlb                       // ht
	FlagHugePage                      // hg: MADV_HUGEPAGE
	FlagNoHuge                        // nh: MADV_NOHUGEPAGE
	FlagDontDump                      // dd
	FlagGuard                         // gu: may hold guard pages (MADV_GUARD_INSTALL)
)

// parseVMFlags parses the two-letter words of a VmFlags line.
func parseVMFlags(value []byte) VMFlags {
	var flags VMFlags
	for len(value) >= 2 {
		switch string(value[:2]) {
		case "lo":
			flags |= FlagLocked
		case "gd":
			flags |= FlagGrowsDown
		case "ht":
			flags |= FlagHugetlb
		case "hg":
			flags |= FlagHugePage
		case "nh":
			flags |= FlagNoHuge
		case "dd":
			flags |= FlagDontDump
		case "gu":
			flags |= FlagGuard
		}
		value = value[min(3, len(value)):]
	}
	return flags
}
