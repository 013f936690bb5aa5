package compare

import "math"

// Delta is a figure before and after. Grown and Shrunk are the changes of single sites, summed
// by their sign: After less Before is Grown less Shrunk.
type Delta struct {
	Before, After     uint64
	Grown, Shrunk     uint64
	BeforeSE, AfterSE uint64 // standard errors; 0 where exact, or not known
}

// Change is After less Before. Compare makes sure that it fits.
func (d *Delta) Change() int64 { return int64(d.After) - int64(d.Before) }

// ChangeSE is the standard error of Change. It takes the errors of both sides for independent,
// and is too large where they are two instants of one trace.
func (d *Delta) ChangeSE() uint64 { return hypot(d.BeforeSE, d.AfterSE) }

// Moved is the larger of what grew and what shrank.
func (d *Delta) Moved() uint64 { return max(d.Grown, d.Shrunk) }

// settle finds, of one site, what grew or shrank.
func (d *Delta) settle() {
	if d.After > d.Before {
		d.Grown = d.After - d.Before
	} else {
		d.Shrunk = d.Before - d.After
	}
}

func (d *Delta) take(m Measured, after bool) {
	if after {
		d.After, d.AfterSE = d.After+m.Value, hypot(d.AfterSE, m.SE)
	} else {
		d.Before, d.BeforeSE = d.Before+m.Value, hypot(d.BeforeSE, m.SE)
	}
}

func (d *Delta) add(o *Delta) {
	d.Before += o.Before
	d.After += o.After
	d.Grown += o.Grown
	d.Shrunk += o.Shrunk
	d.BeforeSE, d.AfterSE = hypot(d.BeforeSE, o.BeforeSE), hypot(d.AfterSE, o.AfterSE)
}

// hypot is the error of a sum of independent parts.
func hypot(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return uint64(min(math.Round(math.Hypot(float64(a), float64(b))), math.MaxInt64))
}

// Sum is what some sites have, in bytes and in number.
type Sum struct{ Bytes, Count Delta }

// Add adds the figures of other sites.
func (s *Sum) Add(o *Sum) {
	s.Bytes.add(&o.Bytes)
	s.Count.add(&o.Count)
}

// Changed reports whether anything did, if only the number.
func (s *Sum) Changed() bool { return s.Bytes.Moved() > 0 || s.Count.Moved() > 0 }

// empty reports whether there is nothing on either side.
func (s *Sum) empty() bool {
	return s.Bytes.Before == 0 && s.Bytes.After == 0 && s.Count.Before == 0 && s.Count.After == 0
}
