package tracer

// ledger shares out what there is a fixed number of, so that no user can take what others need. Root may have all that
// is left. The others have two parts of it: one for what root has installed, one for files of their own. Of either,
// each of them gets no more than a share of what is left: the first one gets most, but however many come, the next one
// finds something.
type ledger struct {
	total uint64
	all   uint64
	parts [2]part // files of users' own, what root has installed
	used  map[account]uint64
}

// part is what users have together.
type part struct {
	limit, used uint64
	share       uint64 // one in so many of what is left
}

func newLedger(total uint64) *ledger {
	return &ledger{
		total: total,
		parts: [2]part{{limit: total / 8 * 3, share: 3}, {limit: total / 2, share: 2}},
		used:  make(map[account]uint64),
	}
}

// part returns an account's part, nil for root.
func (l *ledger) part(a account) *part {
	switch {
	case a == root:
		return nil
	case a.system:
		return &l.parts[1]
	}
	return &l.parts[0]
}

// room is how many more an account may take.
func (l *ledger) room(a account) uint64 {
	left, mine := l.total-min(l.total, l.all), l.used[a]
	p := l.part(a)
	if p == nil {
		return left
	}
	free := p.limit - min(p.limit, p.used)
	// After n more: mine + n <= (free - n) / share.
	if free/p.share < mine {
		return 0
	}
	return min(left, (free-p.share*mine)/(p.share+1))
}

// take charges an account with n; false: it may not have as many.
func (l *ledger) take(a account, n uint64) bool {
	if n > l.room(a) {
		return false
	}
	l.charge(a, n)
	return true
}

// charge charges an account with what is there already.
func (l *ledger) charge(a account, n uint64) {
	l.all += n
	if p := l.part(a); p != nil {
		p.used += n
	}
	if n > 0 {
		l.used[a] += n
	}
}

func (l *ledger) give(a account, n uint64) {
	l.all -= n
	if p := l.part(a); p != nil {
		p.used -= n
	}
	if l.used[a] -= n; l.used[a] == 0 {
		delete(l.used, a)
	}
}
