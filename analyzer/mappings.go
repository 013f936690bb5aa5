package analyzer

import (
	"cmp"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// maxMappings bounds the names that are told apart of one process, and maxMappingText what they come to, in bytes; later
// ones are [others]. A path may have 4,096 bytes, and a process 65,530 mappings: it must not fill memtrace by them.
const (
	maxMappings    = 4096
	maxMappingText = 256 << 10
)

type mappingKey struct {
	name  string
	perms procfs.Perms
}

// mappingSum is what the last reading found of the mappings of one name, and the first.
type mappingSum struct {
	count, bytes, resident, swapped uint64
	firstBytes, firstResident       uint64
}

// mappingSums are a process's mappings by name, for one of which nothing
// better is known. The zero value is ready.
type mappingSums struct {
	sums map[mappingKey]*mappingSum
	text int  // bytes of the names
	read bool // at least once
}

func (m *mappingSums) begin() {
	if m.sums == nil {
		m.sums = make(map[mappingKey]*mappingSum)
	}
	for _, s := range m.sums {
		s.count, s.bytes, s.resident, s.swapped = 0, 0, 0, 0
	}
}

// add takes one mapping of a reading.
func (m *mappingSums) add(v *procfs.VMA) {
	s := m.sums[mappingKey{string(v.Path), v.Perms}]
	if s == nil {
		s = m.name(v)
	}
	s.count++
	s.bytes += v.Size()
	s.resident += v.Rss + v.SharedHugetlb + v.PrivateHugetlb
	s.swapped += v.Swap
}

// name begins the sum of a name that is new, or finds the one for all others.
func (m *mappingSums) name(v *procfs.VMA) *mappingSum {
	key := mappingKey{string(v.Path), v.Perms}
	if len(m.sums) >= maxMappings || m.text+len(key.name) > maxMappingText {
		key = mappingKey{name: "[others]"}
	}
	s := m.sums[key]
	if s == nil {
		s = new(mappingSum)
		m.sums[key] = s
		m.text += len(key.name)
	}
	return s
}

// end ends a reading. What later ones are compared with is the first.
func (m *mappingSums) end() {
	if m.read {
		return
	}
	m.read = true
	for _, s := range m.sums {
		s.firstBytes, s.firstResident = s.bytes, s.resident
	}
}

// all lists the sums of a reading, by name.
func (m *mappingSums) all() []input.Mapping {
	if m == nil {
		return nil
	}
	out := make([]input.Mapping, 0, len(m.sums))
	for key, s := range m.sums {
		if s.count == 0 && s.firstBytes == 0 {
			continue
		}
		out = append(out, input.Mapping{Name: key.name, Perms: key.perms.String(), Count: s.count, Bytes: s.bytes,
			Resident: s.resident, Swapped: s.swapped, FirstBytes: s.firstBytes, FirstResidentBytes: s.firstResident})
	}
	slices.SortFunc(out, func(x, y input.Mapping) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Perms, y.Perms))
	})
	return out
}

// reportMappings lists the mappings with most resident bytes, and the number of those left out.
func reportMappings(found []input.Mapping, top int) (out []report.Mapping, omitted int) {
	out = []report.Mapping{}
	for _, m := range found {
		name := m.Name
		if name == "" {
			name = "[anon]"
		}
		out = append(out, report.Mapping{
			Name: name, Perms: m.Perms, Count: m.Count, Bytes: m.Bytes, ResidentBytes: m.Resident, SwappedBytes: m.Swapped,
			GrowthBytes: int64(m.Resident) - int64(m.FirstResidentBytes), MappedGrowthBytes: int64(m.Bytes) - int64(m.FirstBytes),
		})
	}
	slices.SortFunc(out, func(x, y report.Mapping) int {
		return cmp.Or(cmp.Compare(y.ResidentBytes, x.ResidentBytes), cmp.Compare(y.Bytes, x.Bytes),
			cmp.Compare(x.Name, y.Name), cmp.Compare(x.Perms, y.Perms))
	})
	if top > 0 && len(out) > top {
		omitted, out = len(out)-top, out[:top]
	}
	return out, omitted
}
