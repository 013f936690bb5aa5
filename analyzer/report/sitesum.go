package report

// SiteSum is what several sites have together. Sites with a Basis are in none: their figures are estimates of something else.
type SiteSum struct {
	LiveBytes      uint64 `json:"live_bytes"`
	LiveCount      uint64 `json:"live_count"`
	AllocBytes     uint64 `json:"alloc_bytes"`
	AllocCount     uint64 `json:"alloc_count"`
	FreeCount      uint64 `json:"free_count"`
	TemporaryCount uint64 `json:"temporary_count"`
	ResidentBytes  uint64 `json:"resident_bytes"`
	UntouchedBytes uint64 `json:"untouched_bytes"`
	SwappedBytes   uint64 `json:"swapped_bytes"`
	Faults         uint64 `json:"faults"`
	GrowthBytes    int64  `json:"growth_bytes"`
}

// LeaveOut counts a site among those that the Report does not list.
func (r *Report) LeaveOut(s *Site) {
	if r.SitesMore == 0 && r.SitesMoreSum == nil {
		r.SitesMoreSum = &SiteSum{}
	}
	r.SitesMore++
	if s.Basis == "" && r.SitesMoreSum != nil { // else nobody knows what the others had
		r.SitesMoreSum.add(s)
	}
}

func (m *SiteSum) add(s *Site) {
	m.LiveBytes, m.LiveCount = m.LiveBytes+s.LiveBytes, m.LiveCount+s.LiveCount
	m.AllocBytes, m.AllocCount = m.AllocBytes+s.AllocBytes, m.AllocCount+s.AllocCount
	m.FreeCount, m.TemporaryCount = m.FreeCount+s.FreeCount, m.TemporaryCount+s.TemporaryCount
	m.ResidentBytes, m.UntouchedBytes = m.ResidentBytes+s.ResidentBytes, m.UntouchedBytes+s.UntouchedBytes
	m.SwappedBytes, m.Faults = m.SwappedBytes+s.SwappedBytes, m.Faults+s.Faults
	m.GrowthBytes += s.GrowthBytes
}
