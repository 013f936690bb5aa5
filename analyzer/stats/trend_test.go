package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Upper tail probabilities of S as in M. G. Kendall: Rank correlation methods,
// appendix table 1, and R. O. Gilbert: Statistical methods for environmental
// pollution monitoring (1987), table A18.
func TestMannKendallTable(t *testing.T) {
	for _, c := range []struct {
		n, s int
		want float64
	}{
		{4, 0, .625}, {4, 4, .167}, {4, 6, .042}, {5, 2, .408}, {5, 6, .117}, {5, 10, .0083},
		{6, 5, .235}, {6, 11, .028}, {6, 15, .0014}, {7, 9, .119}, {7, 15, .015}, {7, 21, .00020},
		{8, 10, .138}, {8, 16, .031}, {8, 20, .0071}, {8, 28, .000025}, {9, 36, .0000028},
	} {
		ties := make([]int, c.n)
		for i := range ties {
			ties[i] = 1
		}
		if p := kendallExact(c.s, ties); !near(p, c.want, c.want*0.04) {
			t.Errorf("n = %d, S = %d: p = %v, want %v", c.n, c.s, p, c.want)
		}
	}
}

// permutations calls f with every order of x.
func permutations(x []float64, f func([]float64)) {
	var rest func(int)
	rest = func(k int) {
		if k == len(x) {
			f(x)
			return
		}
		for i := k; i < len(x); i++ {
			x[k], x[i] = x[i], x[k]
			rest(k + 1)
			x[k], x[i] = x[i], x[k]
		}
	}
	rest(0)
}

// With ties, the exact p-value is compared with counting all orders.
func TestMannKendallExactWithTies(t *testing.T) {
	for _, x := range [][]float64{{1, 1, 2}, {3, 1, 3, 2, 3}, {1, 2, 2, 5, 4, 4, 4}, {0, 0, 0, 0}, {2, 1, 2, 3, 1, 2}} {
		s, p := MannKendall(x, 1)
		var all, high float64
		permutations(append([]float64{}, x...), func(y []float64) {
			sy, _ := MannKendall(y, 1)
			all++
			if sy >= s {
				high++
			}
		})
		if !near(p, high/all, 1e-12) {
			t.Errorf("%v: S = %d, p = %v, counted %v", x, s, p, high/all)
		}
	}
}

// By hand: 10 values of which two are equal. S = 45 - 1 pairs tied = 44,
// Var = (10*9*25 - 2*1*9)/18 = 124, Z = 43/sqrt(124) = 3.8615, p = 5.64e-5.
func TestMannKendallNormalWithTies(t *testing.T) {
	s, p := MannKendall([]float64{1, 2, 3, 4, 4, 5, 6, 7, 8, 9}, 1)
	if s != 44 || !near(p, 5.64e-5, 0.01e-5) {
		t.Errorf("S = %d, p = %v", s, p)
	}
	if s, p := MannKendall(make([]float64, 12), 1); s != 0 || p != 1 {
		t.Errorf("constant: S = %d, p = %v", s, p)
	}
}

func TestTheilSen(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{1, 2, 4, 8}, 13.0 / 6}, // slopes 1, 3/2, 2, 7/3, 3, 4
		{[]float64{1, 2, 300, 4, 5}, 1},   // one outlier changes nothing
		{[]float64{5, 5}, 0}, {[]float64{7}, 0}, {nil, 0},
	} {
		if got := TheilSen(c.x); !near(got, c.want, 1e-12) {
			t.Errorf("%v: %v, want %v", c.x, got, c.want)
		}
	}
}

// The p-value is compared with counting all choices of signs.
func TestSignedRankCounted(t *testing.T) {
	for _, d := range [][]float64{{1, 2, 3, 4, 5}, {1, -2, 3, 4, -5, 6}, {1, 1, -1, 2, 2, -3}, {0, 0, 4}, {-1, -2}} {
		want := countSigns(d)
		if p := SignedRank(d); !near(p, want, 1e-12) {
			t.Errorf("%v: p = %v, counted %v", d, p, want)
		}
	}
	if p := SignedRank(nil); p != 1 {
		t.Errorf("no steps: p = %v", p)
	}
}

func countSigns(d []float64) float64 {
	var moved []float64
	for _, v := range d {
		if v != 0 {
			moved = append(moved, v)
		}
	}
	rank := func(i int) (r float64) { // midrank of |moved[i]|
		for _, v := range moved {
			switch a, b := math.Abs(v), math.Abs(moved[i]); {
			case a < b:
				r++
			case a == b:
				r += 0.5
			}
		}
		return r + 0.5
	}
	sum := func(positive func(i int) bool) (s float64) {
		for i := range moved {
			if positive(i) {
				s += rank(i)
			}
		}
		return s
	}
	seen := sum(func(i int) bool { return moved[i] > 0 })
	high := 0
	for signs := range 1 << len(moved) {
		if sum(func(i int) bool { return signs>>i&1 == 1 }) >= seen {
			high++
		}
	}
	return float64(high) / float64(int(1)<<len(moved))
}

// The example of https://en.wikipedia.org/wiki/Holm-Bonferroni_method.
func TestHolm(t *testing.T) {
	got := Holm([]float64{.01, .04, .03, .005})
	for i, want := range []float64{.03, .06, .06, .02} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("H%d: %v, want %v", i+1, got[i], want)
		}
	}
	if got := Holm(nil); len(got) != 0 {
		t.Errorf("no tests: %v", got)
	}
}

// atMost is the number that a binomial variable of n trials of probability p
// exceeds with a chance of about 1e-4.
func atMost(n, p float64) int { return int(n*p + 3.72*math.Sqrt(n*p*(1-p)) + 1) }

// Random walks are mistaken for something else at the 1 % of Fuller's table,
// and white noise, which is the opposite, is told apart nearly always.
func TestUnitRootLevel(t *testing.T) {
	const seeds = 1000
	walks, noises := 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		walk, noise := make([]float64, 50), make([]float64, 50)
		for i := range walk {
			step := rng.NormFloat64() + 1 // drift makes no difference
			walk[i], noise[i] = step, step
			if i > 0 {
				walk[i] += walk[i-1]
			}
		}
		if _, out := UnitRoot(walk); out {
			walks++
		}
		if _, out := UnitRoot(noise); out {
			noises++
		}
	}
	if walks > atMost(seeds, .01) || noises < seeds*95/100 {
		t.Errorf("random walk ruled out in %d of %d walks and %d of noise", walks, seeds, noises)
	}
}
