package top

// State says whether a figure is known and, if not, why.
type State uint8

const (
	Unread      State = iota // not read yet, or left out to stay within the stall budget
	Known                    // N is the figure
	Denied                   // the kernel wants more privileges
	None                     // there is no such figure: a kernel thread's memory, a limit that isn't set
	Unsupported              // this kernel doesn't tell
)

// Figure is a number and whether it is known. Its zero value is Unread, so
// that a figure nobody filled in is not taken for 0.
type Figure struct {
	N     int64
	State State
	// Estimated says that the kernel itself only estimates the figure.
	Estimated bool
	// Stale says that the memory has changed since the figure was read.
	Stale bool
}

// Of returns a known figure.
func Of[T int | int64 | uint64 | uint32](n T) Figure { return Figure{N: int64(n), State: Known} }

// Known reports whether the figure can be used.
func (f Figure) Known() bool { return f.State == Known }

// minus is the difference of two figures, known if both are.
func (f Figure) minus(o Figure) Figure {
	switch {
	case !f.Known():
		return f
	case !o.Known():
		return o
	}
	return Figure{N: f.N - o.N, State: Known, Estimated: f.Estimated || o.Estimated, Stale: f.Stale || o.Stale}
}

// sum adds figures up. Parts that are None count as nothing; with any other
// part unknown the sum is a lower bound, which partial says.
type sum struct {
	total     Figure
	partial   bool
	estimated bool
	stale     bool
}

func (s *sum) add(f Figure) {
	switch f.State {
	case Known:
		s.total.N += f.N
		s.total.State = Known
		s.estimated, s.stale = s.estimated || f.Estimated, s.stale || f.Stale
	case None:
		if s.total.State == Unread && !s.partial {
			s.total.State = None
		}
	default:
		s.partial = true
		if s.total.State != Known {
			s.total.State = f.State
		}
	}
}

// value is the sum as a cell; a partial one is marked as a lower bound.
func (s *sum) value(u Unit) Value {
	f := s.total
	f.Estimated, f.Stale = s.estimated, s.stale
	return Value{Figure: f, Unit: u, AtLeast: s.partial && f.Known()}
}

// Unit says how the number of a Value is written.
type Unit uint8

const (
	Text    Unit = iota // the Value's Text
	Bytes               // "12.3M"
	Change              // signed bytes: "+1.2M"
	Count               // "123"
	Plain               // a number without scaling: a PID
	Percent             // N is in hundredths of a percent
	Clock               // N is in nanoseconds: "1:23.45"
	Age                 // N is in nanoseconds: "3s"
	Bar                 // Text is drawn already; left out of JSON and CSV
)

// Value is a cell of a Table.
type Value struct {
	Figure
	Unit    Unit
	Text    string // untrusted, unless Unit is Bar
	AtLeast bool   // a sum of which parts could not be read
	Strong  bool   // set off from the others
}

func text(s string) Value { return Value{Figure: Figure{State: Known}, Unit: Text, Text: s} }

func value(f Figure, u Unit) Value { return Value{Figure: f, Unit: u} }

// share is part of whole in hundredths of a percent.
func share(part, whole Figure) Figure {
	switch {
	case !part.Known():
		return part
	case !whole.Known():
		return whole
	case whole.N == 0:
		return Figure{State: None}
	}
	return Figure{N: int64(float64(part.N) / float64(whole.N) * 10_000), State: Known, Estimated: part.Estimated || whole.Estimated, Stale: part.Stale || whole.Stale}
}
