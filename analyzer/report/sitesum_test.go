package report

import "testing"

// What is left out has a sum only if that is of all. Reports of older memtraces have left sites out without one.
func TestSumOfSitesLeftOut(t *testing.T) {
	sites := []Site{{ID: 1, LiveBytes: 40}, {ID: 2, LiveBytes: 30}, {ID: 3, LiveBytes: 2}}
	r := &Report{Sites: sites}
	r.LimitSites(1)
	if r.SitesMore != 2 || r.SitesMoreSum == nil || r.SitesMoreSum.LiveBytes != 32 {
		t.Errorf("left out are %d sites of %+v, want 2 of 32 bytes", r.SitesMore, r.SitesMoreSum)
	}
	old := &Report{Sites: sites, SitesMore: 7}
	old.LimitSites(1)
	if old.SitesMore != 9 || old.SitesMoreSum != nil {
		t.Errorf("left out are %d sites of %+v, want 9 of nobody knows how much", old.SitesMore, old.SitesMoreSum)
	}
}
