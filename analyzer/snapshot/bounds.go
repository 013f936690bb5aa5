package snapshot

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Setters for what a file says, each within bounds.

func (d *reading) setText(to *string, f field) error {
	if len(f.data) > maxText {
		return fmt.Errorf("%w: a name of %d bytes", ErrCorrupt, len(f.data))
	}
	if err := d.room.text("names", f); err != nil {
		return err
	}
	*to = f.text()
	return nil
}

func (d *reading) addText(to *[]string, most int, f field) error {
	if len(*to) >= most {
		return tooMany("strings")
	}
	var s string
	err := d.setText(&s, f)
	*to = append(*to, s)
	return err
}

func setInt(to *int, f field) error {
	if f.v > math.MaxInt32 {
		return tooLarge(f)
	}
	*to = int(f.v)
	return nil
}

func setBytes(to *uint64, f field) error {
	if f.v > maxBytes {
		return tooLarge(f)
	}
	*to = f.v
	return nil
}

func setDuration(to *time.Duration, f field) error {
	if f.v > math.MaxInt64 {
		return tooLarge(f)
	}
	*to = time.Duration(f.v)
	return nil
}

func access(v uint64) Access {
	if v < uint64(accesses) {
		return Access(v)
	}
	return Failed // a newer version's
}

func (d *reading) addFigure(to *[]Figure, f field) error {
	if len(*to) >= maxStrings {
		return tooMany("figures")
	}
	if err := d.room.take("figures", costFigure); err != nil {
		return err
	}
	var out Figure
	err := eachField(f.data, func(f field) error {
		switch f.number {
		case 1:
			return d.setText(&out.Name, f)
		case 2:
			return setBytes(&out.Value, f)
		}
		return nil
	})
	*to = append(*to, out)
	return err
}

func tooMany(what string) error { return fmt.Errorf("%w: too many %s", ErrCorrupt, what) }

func tooLarge(f field) error {
	return fmt.Errorf("%w: field %d is too large: %d", ErrCorrupt, f.number, f.v)
}

// check looks at the whole: that what others rely on is there and that no sum
// can overflow.
func (d *reading) check() error {
	s := d.s
	if !d.seen {
		return fmt.Errorf("%w: it says nothing of its machine", ErrCorrupt)
	}
	if bits.OnesCount64(s.Machine.PageSize) != 1 || s.Machine.PageSize < 512 || s.Machine.PageSize > 1<<30 {
		return fmt.Errorf("%w: a page size of %d", ErrCorrupt, s.Machine.PageSize)
	}
	if s.End.Before(s.Begin) {
		s.End = s.Begin // the machine's clock was set back meanwhile
	}
	var sum uint64
	for i := range s.Processes {
		p := &s.Processes[i]
		if i > 0 && s.Processes[i-1].PID >= p.PID {
			return fmt.Errorf("%w: its processes are not in order", ErrCorrupt)
		}
		if err := checkUses(p, len(s.Components)); err != nil {
			return err
		}
		for _, u := range p.Uses {
			sum = min(sum, maxSum) + max(u.Size, u.RSS, u.PSS, u.USS, u.Swap, u.Anon, u.Hugetlb)
		}
		sum = min(sum, maxSum) + max(p.Usage.Size, p.Usage.RSS, p.Usage.PSS, p.Usage.USS, p.Usage.Swap, p.Resident)
		if sum > maxSum {
			return fmt.Errorf("%w: its figures are too large", ErrCorrupt)
		}
	}
	return d.checkPages()
}

func checkUses(p *Process, components int) error {
	for i, u := range p.Uses {
		if u.Component >= components {
			return fmt.Errorf("%w: process %d uses a component that is not there", ErrCorrupt, p.PID)
		}
		if i > 0 && p.Uses[i-1].Component >= u.Component {
			return fmt.Errorf("%w: the components of process %d are not in order", ErrCorrupt, p.PID)
		}
	}
	return nil
}
