package probe

// formula is what is known of a register's value: a constant plus multiples of
// atoms, ascending. Equal ones are the same value.
type formula struct {
	plus  int64
	terms [3]term
}

type term struct {
	atom  int // 0: none
	times int64
}

// atomKind says what an atom stands for.
type atomKind uint8

const (
	unknown  atomKind = iota
	argument          // what the function is called with
	thread            // the thread's pointer
	variable          // the word at of, which holds the offset of a variable of each thread's from that pointer
	load              // what lies at of, so many bytes
	shifted           // of, by so many bits to the right
)

type atom struct {
	kind atomKind
	n    int // which argument; bytes; bits
	of   formula
}

// atoms numbers the atoms of a function, from 1 on.
type atoms struct {
	all   []atom
	known map[atom]int
}

func newAtoms() *atoms {
	return &atoms{known: map[atom]int{}}
}

// fresh is a value of which nothing is known, not even that it equals another one.
func (a *atoms) fresh() formula {
	a.all = append(a.all, atom{})
	return formula{terms: [3]term{{len(a.all), 1}}}
}

func (a *atoms) formula(what atom) formula {
	at, ok := a.known[what]
	if !ok {
		a.all = append(a.all, what)
		at = len(a.all)
		a.known[what] = at
	}
	return formula{terms: [3]term{{at, 1}}}
}

// only returns the atom that a formula consists of.
func (a *atoms) only(f formula) (atom, bool) {
	if f.plus != 0 || f.terms[0].atom == 0 || f.terms[0].times != 1 || f.terms[1].atom != 0 {
		return atom{}, false
	}
	return a.all[f.terms[0].atom-1], true
}

// add returns the sum; ok is false where it has more terms than are followed.
func (f formula) add(g formula) (sum formula, ok bool) {
	sum.plus = f.plus + g.plus
	n := 0
	for i, j := 0, 0; i < len(f.terms) && f.terms[i].atom != 0 || j < len(g.terms) && g.terms[j].atom != 0; {
		var next term
		inF, inG := i < len(f.terms) && f.terms[i].atom != 0, j < len(g.terms) && g.terms[j].atom != 0
		if inF && (!inG || f.terms[i].atom <= g.terms[j].atom) {
			next = f.terms[i]
			i++
		}
		if inG && (next.atom == 0 || next.atom == g.terms[j].atom) {
			next = term{g.terms[j].atom, next.times + g.terms[j].times}
			j++
		}
		if next.times == 0 {
			continue
		}
		if n == len(sum.terms) {
			return formula{}, false
		}
		sum.terms[n] = next
		n++
	}
	return sum, true
}

func (f formula) times(by int64) formula {
	if by == 0 {
		return formula{}
	}
	f.plus *= by
	for i := range f.terms {
		f.terms[i].times *= by
	}
	return f
}

func (f formula) constant() bool { return f.terms[0].atom == 0 }

// without takes an atom out of a formula that has it once.
func (f formula) without(atom int) (rest formula, ok bool) {
	for _, t := range f.terms {
		if t.atom == atom && t.times == 1 {
			return f.add(formula{terms: [3]term{{atom, -1}}})
		}
	}
	return formula{}, false
}
