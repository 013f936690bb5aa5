package query

import (
	"math"

	"github.com/memtrace/memtrace/analyzer"
)

// Figures add up blocks.
type Figures struct {
	Count          uint64 `json:"count"`
	Bytes          uint64 `json:"bytes"`
	LiveCount      uint64 `json:"live_count"` // of those: that live at the end of the span
	LiveBytes      uint64 `json:"live_bytes"`
	FreedCount     uint64 `json:"freed_count"` // whose end counts as a free: others ended with their process or its program
	TemporaryCount uint64 `json:"temporary_count"`
	LeakedCount    uint64 `json:"leaked_count"`
	LeakedBytes    uint64 `json:"leaked_bytes"`
	MeanLifetimeNS uint64 `json:"mean_lifetime_ns"` // of those that have ended; 0: none has
	MaxLifetimeNS  uint64 `json:"max_lifetime_ns"`  // of all: of those that live, so far
	FirstBornNS    uint64 `json:"first_born_ns"`    // since the trace began
	LastBornNS     uint64 `json:"last_born_ns"`
	// Estimate says how near the figures are; nil where every block was seen.
	Estimate *Estimate `json:"estimate,omitempty"`
}

// An Estimate is of figures that blocks of a sample stand for. SE are standard errors.
type Estimate struct {
	Samples uint64 `json:"samples"`
	BytesSE uint64 `json:"bytes_se"`
	CountSE uint64 `json:"count_se"`
}

// sums are Figures that are being added up.
type sums struct {
	count, bytes                 uint64
	live, liveBytes              uint64
	freed, temporary             uint64
	leaked, leakedBytes          uint64
	ended, lifetime              float64 // blocks, with those that they stand for, and their lifetimes
	longest, firstBorn, lastBorn uint64
	others                       *others
}

// others is what blocks of a sample stand for beyond themselves.
type others struct {
	samples                             uint64
	all, live, freed, temporary, leaked analyzer.Others
}

func add(to *analyzer.Others, x analyzer.Others) {
	to.Count += x.Count
	to.Bytes += x.Bytes
	to.VarCount += x.VarCount
	to.VarBytes += x.VarBytes
}

// add adds a block.
func (t *sums) add(s *subject) {
	l := s.life
	if t.count == 0 {
		t.firstBorn, t.lastBorn = l.Born, l.Born
	}
	t.firstBorn, t.lastBorn = min(t.firstBorn, l.Born), max(t.lastBorn, l.Born)
	t.count++
	t.bytes += l.Size
	life := s.lifetime()
	t.longest = max(t.longest, life)
	weight := 1.0
	if l.Interval != 0 {
		weight = t.addOthers(s)
	}
	switch {
	case s.live:
		t.live++
		t.liveBytes += l.Size
	default:
		t.ended += weight
		t.lifetime += weight * float64(life)
		if l.Cause.Frees() {
			t.freed++
		}
	}
	if l.Temporary {
		t.temporary++
	}
	if l.Leaked != "" {
		t.leaked++
		t.leakedBytes += l.Size
	}
}

// addOthers adds what a block of a sample stands for, and returns how many blocks that is with it.
func (t *sums) addOthers(s *subject) float64 {
	if t.others == nil {
		t.others = &others{}
	}
	x := s.life.Others()
	t.others.samples++
	add(&t.others.all, x)
	if s.live {
		add(&t.others.live, x)
	} else if s.life.Cause.Frees() {
		add(&t.others.freed, x)
	}
	if s.life.Temporary {
		add(&t.others.temporary, x)
	}
	if s.life.Leaked != "" {
		add(&t.others.leaked, x)
	}
	return 1 + float64(x.Count)/analyzer.CountUnit
}

// merge adds other sums.
func (t *sums) merge(o *sums) {
	if o.count == 0 {
		return
	}
	if t.count == 0 {
		t.firstBorn, t.lastBorn = o.firstBorn, o.lastBorn
	}
	t.firstBorn, t.lastBorn = min(t.firstBorn, o.firstBorn), max(t.lastBorn, o.lastBorn)
	t.count += o.count
	t.bytes += o.bytes
	t.live += o.live
	t.liveBytes += o.liveBytes
	t.freed += o.freed
	t.temporary += o.temporary
	t.leaked += o.leaked
	t.leakedBytes += o.leakedBytes
	t.ended += o.ended
	t.lifetime += o.lifetime
	t.longest = max(t.longest, o.longest)
	if o.others == nil {
		return
	}
	if t.others == nil {
		t.others = &others{}
	}
	a, b := t.others, o.others
	a.samples += b.samples
	add(&a.all, b.all)
	add(&a.live, b.live)
	add(&a.freed, b.freed)
	add(&a.temporary, b.temporary)
	add(&a.leaked, b.leaked)
}

// empty reports whether no block was added.
func (t *sums) empty() bool { return t.count == 0 }

// figures are what the sums come to.
func (t *sums) figures() Figures {
	f := Figures{
		Count: t.count, Bytes: t.bytes, LiveCount: t.live, LiveBytes: t.liveBytes, FreedCount: t.freed, TemporaryCount: t.temporary,
		LeakedCount: t.leaked, LeakedBytes: t.leakedBytes, MaxLifetimeNS: t.longest, FirstBornNS: t.firstBorn, LastBornNS: t.lastBorn,
	}
	if t.ended > 0 {
		f.MeanLifetimeNS = uint64(math.Round(t.lifetime / t.ended))
	}
	x := t.others
	if x == nil {
		return f
	}
	f.Count += whole(x.all)
	f.Bytes += x.all.Bytes
	f.LiveCount += whole(x.live)
	f.LiveBytes += x.live.Bytes
	f.FreedCount += whole(x.freed)
	f.TemporaryCount += whole(x.temporary)
	f.LeakedCount += whole(x.leaked)
	f.LeakedBytes += x.leaked.Bytes
	f.Estimate = &Estimate{Samples: x.samples, BytesSE: uint64(math.Round(math.Sqrt(x.all.VarBytes))), CountSE: uint64(math.Round(math.Sqrt(x.all.VarCount)))}
	return f
}

// whole is a number of blocks.
func whole(x analyzer.Others) uint64 { return (x.Count + analyzer.CountUnit/2) / analyzer.CountUnit }
