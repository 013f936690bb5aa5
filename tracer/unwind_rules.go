package tracer

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/unwind"
)

// ruleList numbers the rules that all tables share, in the kernel's map.
// Rules are only ever added: what holds a number of one may keep it.
type ruleList struct {
	m       *ebpf.Map
	numbers map[unwind.Rule]uint32
	pending []bpf.MemtraceUnwindRule
	room    *quota
}

func newRuleList(m *ebpf.Map) (*ruleList, error) {
	l := &ruleList{m: m, numbers: make(map[unwind.Rule]uint32), room: newQuota(uint64(m.MaxEntries()))}
	l.number(unwind.Rule{}, root) // 0 is None
	return l, l.flush()
}

// number returns the number of a rule, and charges an account with it where it is new; false: there is no room for it.
// A rule that is new must be flushed before its number is used.
func (l *ruleList) number(r unwind.Rule, a account) (uint32, bool) {
	if n, ok := l.numbers[r]; ok {
		return n, true
	}
	if !l.room.take(a, 1) {
		return 0, false
	}
	n := uint32(len(l.numbers))
	l.numbers[r] = n
	l.pending = append(l.pending, bpf.MemtraceUnwindRule{
		Kind: uint8(r.Kind), Reg: r.Reg, FromFp: r.FromFP, Param: r.Param, Cfa: r.CFA, Saved: r.Saved,
	})
	return n, true
}

// flush writes the new rules into the kernel's map.
func (l *ruleList) flush() error {
	first := uint32(len(l.numbers) - len(l.pending))
	for i := range l.pending {
		if err := l.m.Put(first+uint32(i), &l.pending[i]); err != nil {
			return fmt.Errorf("write unwinding rule %d: %w", first+uint32(i), err)
		}
	}
	l.pending = l.pending[:0]
	return nil
}
