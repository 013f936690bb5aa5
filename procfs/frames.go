package procfs

// FrameFile is one of the files about page frames, by frame number
// (Documentation/admin-guide/mm/pagemap.rst). Only root may read them, or who
// has CAP_DAC_READ_SEARCH.
type FrameFile string

const (
	// FrameCounts is how often each frame is mapped; on a kernel with
	// CONFIG_NO_PAGE_MAPCOUNT (Linux 6.15 on) the average of a large folio's.
	FrameCounts FrameFile = "kpagecount"
	// FrameFlags are the flags of each frame, see FrameFlag (Linux 2.6.31).
	FrameFlags FrameFile = "kpageflags"
	// FrameCgroups is the inode number of the control group that each frame
	// is charged to, or 0 (Linux 4.3, CONFIG_MEMCG).
	FrameCgroups FrameFile = "kpagecgroup"
)

// FrameFlag is a bit of kpageflags (include/uapi/linux/kernel-page-flags.h).
type FrameFlag uint64

const (
	FrameLocked       FrameFlag = 1 << 0
	FrameError        FrameFlag = 1 << 1
	FrameReferenced   FrameFlag = 1 << 2
	FrameUptodate     FrameFlag = 1 << 3
	FrameDirty        FrameFlag = 1 << 4
	FrameLRU          FrameFlag = 1 << 5
	FrameActive       FrameFlag = 1 << 6
	FrameSlab         FrameFlag = 1 << 7
	FrameWriteback    FrameFlag = 1 << 8
	FrameReclaim      FrameFlag = 1 << 9
	FrameBuddy        FrameFlag = 1 << 10 // free
	FrameMmap         FrameFlag = 1 << 11 // mapped by a process
	FrameAnon         FrameFlag = 1 << 12
	FrameSwapCache    FrameFlag = 1 << 13
	FrameSwapBacked   FrameFlag = 1 << 14
	FrameCompoundHead FrameFlag = 1 << 15
	FrameCompoundTail FrameFlag = 1 << 16
	FrameHuge         FrameFlag = 1 << 17 // of hugetlbfs
	FrameUnevictable  FrameFlag = 1 << 18
	FrameHWPoison     FrameFlag = 1 << 19
	FrameNoPage       FrameFlag = 1 << 20 // there is no such frame
	FrameKSM          FrameFlag = 1 << 21
	FrameTHP          FrameFlag = 1 << 22
	FrameOffline      FrameFlag = 1 << 23 // by a balloon, since Linux 5.1
	FrameZero         FrameFlag = 1 << 24 // the shared zero page
	FrameIdle         FrameFlag = 1 << 25
	FramePageTable    FrameFlag = 1 << 26 // since Linux 4.18
)
