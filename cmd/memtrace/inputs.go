package main

import "github.com/memtrace/memtrace/analyzer/input"

// take gives the analyzer one thing more. All that it is told passes here, in the goroutine of loop.
func (s *session) take(in input.Input) {
	if s.tee != nil {
		s.tee(in)
	}
	s.analyzer.Take(in)
}
