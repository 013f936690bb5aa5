package procfs

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
	switch string(key) {
	case "Rss":
		return &m.Rss
	case "Pss":
		return &m.Pss
	case "Pss_Dirty":
		return &m.PssDirty
	case "Pss_Anon":
		return &m.PssAnon
	case "Pss_File":
		return &m.PssFile
	case "Pss_Shmem":
		return &m.PssShmem
	case "Shared_Clean":
		return &m.SharedClean
	case "Shared_Dirty":
		return &m.SharedDirty
	case "Private_Clean":
		return &m.PrivateClean
	case "Private_Dirty":
		return &m.PrivateDirty
	case "Referenced":
		return &m.Referenced
	case "Anonymous":
		return &m.Anonymous
	case "LazyFree":
		return &m.LazyFree
	case "AnonHugePages":
		return &m.AnonHuge
	case "Swap":
		return &m.Swap
	case "SwapPss":
		return &m.SwapPss
	case "Locked":
		return &m.Locked
	case "Shared_Hugetlb":
		return &m.SharedHugetlb
	case "Private_Hugetlb":
		return &m.PrivateHugetlb
	}
	return nil
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
