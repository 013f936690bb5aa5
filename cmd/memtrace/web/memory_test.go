package web

import "testing"

// However many files there are, what a page may take in all is within its memory, and is most of it.
func TestSharesAddUp(t *testing.T) {
	for _, memory := range []uint64{64 << 20, 1 << 30, 1<<40 + 12345} {
		for _, files := range []int{1, 2, 3, 16} {
			s := SharesOf(memory, files)
			rooms := s.rooms()
			all := uint64(files)*(s.Report+s.Savepoints) + s.Answers + jobsAtOnce*(rooms.Sites+rooms.Blocks)
			if all > memory/8*7 || all < memory/16*13 {
				t.Errorf("%d files have %d of %d bytes", files, all, memory)
			}
		}
	}
}
