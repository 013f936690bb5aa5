package analyzer

// seriesCap bounds the samples kept of a site's past. When they are full,
// every second one goes and the interval doubles, so a trace of any length
// keeps between seriesCap/2 and seriesCap samples, evenly spaced over all of it.
const seriesCap = 64

// A sample is what a site held when an observation window closed.
type sample struct {
	bytes uint64 // live bytes
	count uint64 // live blocks
}

// A series is a site's live bytes and blocks at the end of windows
// first, first+step, first+2*step, … Windows are numbered from 0. Before
// window first the site had no live block at the end of any window.
type series struct {
	samples []sample
	first   uint64 // number of the window of samples[0], a multiple of step
	step    uint64 // windows from one sample to the next, a power of two; 0 where nothing was recorded
}

// record adds the state at the end of a window; calls name windows in
// ascending order. Windows between two sampling points are left out.
func (s *series) record(window uint64, now sample) {
	if s.step == 0 {
		s.step, s.first = 1, window
	}
	if window%s.step != 0 {
		return
	}
	if len(s.samples) == seriesCap {
		s.decimate()
		if window%s.step != 0 {
			return
		}
	}
	s.samples = append(s.samples, now)
}

// decimate doubles the interval: it keeps the samples whose window is a
// multiple of the new step, so that all series of a trace stay aligned.
func (s *series) decimate() {
	odd := s.first / s.step % 2
	kept := s.samples[:0]
	for i := int(odd); i < len(s.samples); i += 2 {
		kept = append(kept, s.samples[i])
	}
	s.first += odd * s.step
	s.step *= 2
	s.samples = kept
}

// idle reports whether the site had no live blocks for the latter half of a
// full series.
func (s *series) idle() bool {
	if len(s.samples) < seriesCap/2 {
		return false
	}
	for _, w := range s.samples[len(s.samples)-seriesCap/2:] {
		if w.count != 0 {
			return false
		}
	}
	return true
}
