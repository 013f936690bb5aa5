package analyzer

// SiteMemory says where bytes of live blocks are. The four add up to their size.
type SiteMemory struct {
	Resident  uint64
	Untouched uint64 // never written, or given back to the kernel by the allocator
	Swapped   uint64
	Unknown   uint64 // in no mapping that could be looked at; younger than the reading
}

func (m *SiteMemory) add(o SiteMemory) {
	m.Resident += o.Resident
	m.Untouched += o.Untouched
	m.Swapped += o.Swapped
	m.Unknown += o.Unknown
}
