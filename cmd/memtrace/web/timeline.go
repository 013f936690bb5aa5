package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/timeline"
)

// number reads a number of a question; 0 where there is none.
func number(v url.Values, name string, most uint64) (uint64, error) {
	text := v.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most {
		return 0, errAsked{fmt.Errorf("%s=%s is no number up to %d", name, text, most)}
	}
	return n, nil
}

// timeline is the course of a recording.
func (s *Server) timeline(r *http.Request) (any, error) {
	v := r.URL.Query()
	p, err := s.place(v)
	if err != nil {
		return nil, err
	}
	if !p.file.recorded() {
		return nil, errAsked{errNoRecording}
	}
	opt := timeline.Options{From: p.from, To: p.to}
	pid, err := number(v, "pid", 1<<32-1)
	if err != nil {
		return nil, err
	}
	steps, err := number(v, "steps", 2000)
	if err != nil {
		return nil, err
	}
	opt.PID, opt.Steps = uint32(pid), int(steps)
	return s.course(r, p, opt)
}

// course makes a timeline in the background.
func (s *Server) course(r *http.Request, p place, opt timeline.Options) (any, error) {
	key := fmt.Sprintf("timeline %d %+v", p.number, opt)
	value, done, err := s.jobs.get(r.Context(), key, weighTimeline, func(watch func(float64) error) (any, error) {
		return p.file.timeline(opt, watch)
	})
	if err != nil {
		return nil, err
	}
	if done < 1 {
		return nil, errPending(done)
	}
	return value, nil
}

func weighTimeline(v any) uint64 {
	t := v.(*timeline.Timeline)
	return uint64(len(t.Steps)+2*len(t.Samples)+len(t.Marks)+len(t.Bands)) << 6
}
