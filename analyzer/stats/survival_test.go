package stats

import (
	"math"
	"testing"
)

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

// The remission times of the 21 patients on 6-mercaptopurine, in weeks, of
// E. J. Freireich et al., Blood 21 (1963) 699-716; curve and standard errors
// as worked out in D. G. Kleinbaum, M. Klein: Survival analysis, chapter 2.
func TestKaplanMeierOnFreireichsData(t *testing.T) {
	bins := []LifetimeBin{
		{UpTo: 6, Freed: 3, Live: 1}, {UpTo: 7, Freed: 1}, {UpTo: 9, Live: 1}, {UpTo: 10, Freed: 1, Live: 1},
		{UpTo: 11, Live: 1}, {UpTo: 13, Freed: 1}, {UpTo: 16, Freed: 1}, {UpTo: 17, Live: 1}, {UpTo: 19, Live: 1},
		{UpTo: 20, Live: 1}, {UpTo: 22, Freed: 1}, {UpTo: 23, Freed: 1}, {UpTo: 25, Live: 1}, {UpTo: 32, Live: 2},
		{UpTo: 34, Live: 1}, {UpTo: 35, Live: 1},
	}
	want := []SurvivalStep{
		{6, .8571, .0764}, {7, .8067, .0869}, {10, .7529, .0963}, {13, .6902, .1068},
		{16, .6275, .1141}, {22, .5378, .1282}, {23, .4482, .1346},
	}
	got := KaplanMeier(bins)
	if len(got) != len(want) {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.UpTo != w.UpTo || !near(g.Surviving, w.Surviving, 5e-5) || !near(g.StdErr, w.StdErr, 5e-5) {
			t.Errorf("step %d: got %+v, want %+v", i, g, w)
		}
	}
	for age, surviving := range map[uint64]float64{5: 1, 6: .8571, 12: .7529, 99: .4482} {
		if s := SurvivingAt(got, age).Surviving; !near(s, surviving, 5e-5) {
			t.Errorf("S(%d) = %v, want %v", age, s, surviving)
		}
	}
}

func TestKaplanMeierEdges(t *testing.T) {
	if got := KaplanMeier(nil); got != nil {
		t.Errorf("no bins: %v", got)
	}
	all := KaplanMeier([]LifetimeBin{{UpTo: 1, Freed: 2}, {UpTo: 2, Freed: 2}})
	if last := all[1]; last.Surviving != 0 || last.StdErr != 0 {
		t.Errorf("all freed: %+v", last)
	}
}

func TestFreedQuantile(t *testing.T) {
	bins := []LifetimeBin{{UpTo: 10, Freed: 998}, {UpTo: 20, Freed: 1}, {UpTo: 30, Freed: 1}, {UpTo: 40, Live: 5}}
	if upTo, freed := FreedQuantile(bins, 0.999); upTo != 20 || freed != 1000 {
		t.Errorf("got %d of %d", upTo, freed)
	}
	if upTo, freed := FreedQuantile(bins[3:], 0.999); upTo != 0 || freed != 0 {
		t.Errorf("nothing freed: got %d of %d", upTo, freed)
	}
}

// Where nothing was freed late, the p-value is the product of from/age: here
// three blocks that are twice as old, and one four times.
func TestImmortality(t *testing.T) {
	bins := []LifetimeBin{{UpTo: 8, Freed: 100}, {UpTo: 16}, {UpTo: 32, Live: 3}, {UpTo: 64, Live: 1}}
	if p := Immortality(bins, 8); !near(p, 1.0/8/4, 1e-12) {
		t.Errorf("p = %v, want 1/32", p)
	}
	if p := Immortality(bins, 0); p != 1 {
		t.Errorf("no usual lifetime: p = %v", p)
	}
}

// Values of the Poisson and binomial distributions as printed in tables.
func TestTailProbabilities(t *testing.T) {
	for _, c := range []struct{ got, want, tolerance float64 }{
		{poissonAtMost(2, 3), .4232, 5e-5}, {poissonAtMost(0, 2), .1353, 5e-5}, {poissonAtMost(10, 5), .9863, 5e-5},
		{poissonAtMost(5, 0), 1, 0}, {poissonAtMost(20_000, 20_000), .5, .005},
		{BinomialAtLeast(5, 10, .1), .0016, 5e-5}, {BinomialAtLeast(2, 5, .1), .0815, 5e-5},
		{BinomialAtLeast(0, 5, .1), 1, 0}, {BinomialAtLeast(500_000, 1_000_000, .1), 0, 1e-100},
		{normalAbove(1.96), .0250, 5e-5}, {normalAbove(2.326), .0100, 5e-5},
	} {
		if !near(c.got, c.want, c.tolerance) {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}
