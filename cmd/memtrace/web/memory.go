package web

import "github.com/memtrace/memtrace/analyzer/recording"

// Shares are how much of its memory a Server lets what it keeps and does take, in bytes. Together they are seven
// eighths: the rest is for what is read of files, and for answers that are being made.
type Shares struct {
	Report     uint64 // of each file: the one that it has
	Savepoints uint64 // of each file
	Answers    uint64 // of all files, those that are kept
	Reading    uint64 // of each of jobsAtOnce readings: for call sites and live blocks
}

// SharesOf divides memory, for so many files.
func SharesOf(memory uint64, files int) Shares {
	each := memory / uint64(max(files, 1))
	return Shares{Report: each / 8, Savepoints: each / 16 * 3, Answers: memory / 16, Reading: memory / 2 / jobsAtOnce}
}

// rooms are those of the analyzer of a reading, in the proportion that memtrace report has them in.
func (s *Shares) rooms() recording.Rooms {
	return recording.Rooms{Sites: s.Reading / 12 * 5, Blocks: s.Reading / 12 * 7}
}
