package tracer

// userFrame is not known: functions save more registers than the tables tell of.
func userFrame([]uint64) (f frame, pc uint64, ok bool) { return f, 0, false }

// SavedAcrossCalls is not known: d8 to d15 are among them.
func SavedAcrossCalls([]uint64) ([]uint64, bool) { return nil, false }

// UsedByExec is not known, as SavedAcrossCalls.
func UsedByExec([]uint64) ([]uint64, bool) { return nil, false }

func execArguments([]uint64) uint64 { return 0 }
