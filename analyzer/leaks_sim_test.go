package analyzer

import (
	"math"
	"math/rand/v2"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
)

const second = 1_000_000_000

// forever is the lifetime of a block that is not freed.
const forever = math.MaxUint64

// A simulated site: blocks with a birth and a lifetime, in ns.
type simulated struct {
	rng    *rand.Rand
	size   uint64
	blocks [][2]uint64 // birth, lifetime
}

func simulate(seed uint64) *simulated {
	return &simulated{rng: rand.New(rand.NewPCG(seed, 42)), size: 256}
}

// spread adds n blocks with births evenly at random in [from, to) seconds.
func (s *simulated) spread(n int, from, to float64, lifetime func(birth float64) float64) {
	for range n {
		birth := from + (to-from)*s.rng.Float64()
		life := uint64(forever)
		if seconds := lifetime(birth); !math.IsInf(seconds, 1) {
			life = uint64(seconds * second)
		}
		s.blocks = append(s.blocks, [2]uint64{uint64(birth * second), life})
	}
}

// exponential lifetimes of the given mean in seconds.
func (s *simulated) exponential(mean float64) func(float64) float64 {
	return func(float64) float64 { return mean * s.rng.ExpFloat64() }
}

func never(float64) float64 { return math.Inf(1) }

// at is what an Analyzer would know after n windows of a second.
func (s *simulated) at(n int) leakSite {
	now := uint64(n) * second
	var freed, ages stats.Histogram
	out := leakSite{id: 7, levels: make([]float64, n), stepNS: second, observed: now}
	for _, b := range s.blocks {
		birth, life := b[0], b[1]
		if birth >= now {
			continue
		}
		out.levels[birth/second] += float64(s.size)
		if freedAt := birth + life; life != forever && freedAt/second < uint64(n) {
			out.levels[freedAt/second] -= float64(s.size)
		}
		if life != forever && birth+life < now {
			freed.Add(stats.DurationBucket(life), 1)
		} else {
			ages.Add(stats.DurationBucket(now-birth), 1)
			out.bytes += s.size
			out.count++
		}
	}
	for w := 1; w < n; w++ { // from changes to levels
		out.levels[w] += out.levels[w-1]
	}
	var ageBytes stats.Histogram
	for b, count := range ages.All {
		ageBytes.Add(b, count*s.size)
	}
	out.bins = stats.LifetimeBins(&freed, &ages, &ageBytes)
	return out
}

// atMost is the number that a binomial variable of n trials of probability p
// exceeds with a chance of about 1e-4.
func atMost(n, p float64) int { return int(n*p + 3.72*math.Sqrt(n*p*(1-p)) + 1) }

// found is the kinds of candidates among the sites.
func found(minAge uint64, sites ...leakSite) map[string][]report.Leak {
	out := map[string][]report.Leak{}
	for _, leak := range leakCandidates(func(yield func(leakSite) bool) {
		for _, s := range sites {
			if !yield(s) {
				return
			}
		}
	}, minAge) {
		out[leak.Kind] = append(out[leak.Kind], leak)
	}
	return out
}

// lru adds the blocks of a cache of so many entries, with requests a second
// over so many seconds, for keys drawn by key. Each hit keeps an entry alive.
func (s *simulated) lru(capacity, perSecond, seconds int, key func() uint64) {
	type entry struct {
		birth, used uint64
	}
	cache := map[uint64]*entry{}
	queue := [][2]uint64{} // key, time of use: lazily aged
	step := uint64(second / perSecond)
	for now := uint64(0); now < uint64(seconds)*second; now += step {
		k := key()
		if e := cache[k]; e != nil {
			e.used = now
		} else {
			cache[k] = &entry{now, now}
		}
		queue = append(queue, [2]uint64{k, now})
		for len(cache) > capacity {
			oldest := queue[0]
			queue = queue[1:]
			if e := cache[oldest[0]]; e != nil && e.used == oldest[1] {
				s.blocks = append(s.blocks, [2]uint64{e.birth, now - e.birth})
				delete(cache, oldest[0])
			}
		}
	}
	for _, e := range cache {
		s.blocks = append(s.blocks, [2]uint64{e.birth, forever})
	}
}
