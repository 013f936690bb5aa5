package query

// A Query is an expression that has been checked.
type Query struct {
	source string
	needs  needs
	site   func(*subject) bool // the part on sites alone; nil: none
	block  func(*subject) bool // the rest; nil: none
	mixed  bool                // that asks of names, too
	memos  int
}

// Compile checks an expression; an error is a *Problem. An empty one holds for every block.
func Compile(expression string) (*Query, error) {
	n, memos, problem := parse(expression)
	if problem != nil {
		return nil, problem
	}
	q := &Query{source: expression, needs: n.needs, memos: memos}
	var ofSite, ofBlock []func(*subject) bool
	for _, part := range n.conjuncts() {
		if part.needs == needsNames {
			ofSite = append(ofSite, part.bool)
			continue
		}
		ofBlock = append(ofBlock, part.bool)
		q.mixed = q.mixed || part.needs&needsNames != 0
	}
	q.site, q.block = allOf(ofSite), allOf(ofBlock)
	return q, nil
}

// allOf is nil where there is nothing to ask.
func allOf(parts []func(*subject) bool) func(*subject) bool {
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	return conjunction(parts)
}

// String is the expression as it was written.
func (q *Query) String() string { return q.source }
