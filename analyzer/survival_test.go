package analyzer

import (
	"math"
	"testing"
)

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

// The remission times of the 21 patients on 6-mercaptopurine, in weeks, of
// E. J. Freireich et al., Blood 21 (1963) 699-716; curve and standard errors
// as worked out in D. G. Kleinbaum, M. Klein: Survival analysis, chapter 2.
func TestKaplanMeierOnFreireichsData(t *testing.T) {
	bins := []lifetimeBin{
		{upTo: 6, freed: 3, live: 1}, {upTo: 7, freed: 1}, {upTo: 9, live: 1}, {upTo: 10, freed: 1, live: 1},
		{upTo: 11, live: 1}, {upTo: 13, freed: 1}, {upTo: 16, freed: 1}, {upTo: 17, live: 1}, {upTo: 19, live: 1},
		{upTo: 20, live: 1}, {upTo: 22, freed: 1}, {upTo: 23, freed: 1}, {upTo: 25, live: 1}, {upTo: 32, live: 2},
		{upTo: 34, live: 1}, {upTo: 35, live: 1},
	}
	want := []survivalStep{
		{6, .8571, .0764}, {7, .8067, .0869}, {10, .7529, .0963}, {13, .6902, .1068},
		{16, .6275, .1141}, {22, .5378, .1282}, {23, .4482, .1346},
	}
	got := kaplanMeier(bins)
	if len(got) != len(want) {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.upTo != w.upTo || !near(g.surviving, w.surviving, 5e-5) || !near(g.stdErr, w.stdErr, 5e-5) {
			t.Errorf("step %d: got %+v, want %+v", i, g, w)
		}
	}
	for age, surviving := range map[uint64]float64{5: 1, 6: .8571, 12: .7529, 99: .4482} {
		if s := survivingAt(got, age).surviving; !near(s, surviving, 5e-5) {
			t.Errorf("S(%d) = %v, want %v", age, s, surviving)
		}
	}
}

func TestKaplanMeierEdges(t *testing.T) {
	if got := kaplanMeier(nil); got != nil {
		t.Errorf("no bins: %v", got)
	}
	all := kaplanMeier([]lifetimeBin{{upTo: 1, freed: 2}, {upTo: 2, freed: 2}})
	if last := all[1]; last.surviving != 0 || last.stdErr != 0 {
		t.Errorf("all freed: %+v", last)
	}
}

func TestFreedQuantile(t *testing.T) {
	bins := []lifetimeBin{{upTo: 10, freed: 998}, {upTo: 20, freed: 1}, {upTo: 30, freed: 1}, {upTo: 40, live: 5}}
	if upTo, freed := freedQuantile(bins, 0.999); upTo != 20 || freed != 1000 {
		t.Errorf("got %d of %d", upTo, freed)
	}
	if upTo, freed := freedQuantile(bins[3:], 0.999); upTo != 0 || freed != 0 {
		t.Errorf("nothing freed: got %d of %d", upTo, freed)
	}
}

// Where nothing was freed late, the p-value is the product of from/age: here
// three blocks that are twice as old, and one four times.
func TestImmortality(t *testing.T) {
	bins := []lifetimeBin{{upTo: 8, freed: 100}, {upTo: 16}, {upTo: 32, live: 3}, {upTo: 64, live: 1}}
	if p := immortality(bins, 8); !near(p, 1.0/8/4, 1e-12) {
		t.Errorf("p = %v, want 1/32", p)
	}
	if p := immortality(bins, 0); p != 1 {
		t.Errorf("no usual lifetime: p = %v", p)
	}
}

// Values of the Poisson and binomial distributions as printed in tables.
func TestTailProbabilities(t *testing.T) {
	for _, c := range []struct{ got, want, tolerance float64 }{
		{poissonAtMost(2, 3), .4232, 5e-5}, {poissonAtMost(0, 2), .1353, 5e-5}, {poissonAtMost(10, 5), .9863, 5e-5},
		{poissonAtMost(5, 0), 1, 0}, {poissonAtMost(20_000, 20_000), .5, .005},
		{binomialAtLeast(5, 10, .1), .0016, 5e-5}, {binomialAtLeast(2, 5, .1), .0815, 5e-5},
		{binomialAtLeast(0, 5, .1), 1, 0}, {binomialAtLeast(500_000, 1_000_000, .1), 0, 1e-100},
		{normalAbove(1.96), .0250, 5e-5}, {normalAbove(2.326), .0100, 5e-5},
	} {
		if !near(c.got, c.want, c.tolerance) {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}
