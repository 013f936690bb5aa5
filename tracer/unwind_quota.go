package tracer

// quota divides a fixed number of things between users, so that no user can take what others need. Root may take all
// that is left. The other users have two parts: one for what root has installed, one for files of their own. Each of
// them gets no more than a share of what is left of a part. The first user gets most, but the next one always gets some.
type quota struct {
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

func newQuota(total uint64) *quota {
	return &quota{
		total: total,
		parts: [2]part{{limit: total / 8 * 3, share: 3}, {limit: total / 2, share: 2}},
		used:  make(map[account]uint64),
	}
}

// part returns an account's part, nil for root.
func (q *quota) part(a account) *part {
	switch {
	case a == root:
		return nil
	case a.system:
		return &q.parts[1]
	}
	return &q.parts[0]
}

// room is how many more an account may take.
func (q *quota) room(a account) uint64 {
	left, mine := q.total-min(q.total, q.all), q.used[a]
	p := q.part(a)
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
func (q *quota) take(a account, n uint64) bool {
	if n > q.room(a) {
		return false
	}
	q.charge(a, n)
	return true
}

// charge charges an account with what is there already.
func (q *quota) charge(a account, n uint64) {
	q.all += n
	if p := q.part(a); p != nil {
		p.used += n
	}
	if n > 0 {
		q.used[a] += n
	}
}

func (q *quota) give(a account, n uint64) {
	q.all -= n
	if p := q.part(a); p != nil {
		p.used -= n
	}
	if q.used[a] -= n; q.used[a] == 0 {
		delete(q.used, a)
	}
}
