package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func weighOne(any) uint64 { return 1 }

// TestJobIsSharedAndKept asks the same question from many tabs.
func TestJobIsSharedAndKept(t *testing.T) {
	t.Parallel()
	j := newJobs(1 << 20)
	var runs atomic.Int32
	var tabs sync.WaitGroup
	for range 100 {
		tabs.Add(1)
		go func() {
			defer tabs.Done()
			for {
				value, done, err := j.get(t.Context(), "question", weighOne, func(func(float64) error) (any, error) { return runs.Add(1), nil })
				if err != nil || done == 1 && value != int32(1) {
					t.Errorf("%v, %v", value, err)
				}
				if done == 1 {
					return
				}
			}
		}()
	}
	tabs.Wait()
	if runs.Load() != 1 {
		t.Errorf("it was answered %d times", runs.Load())
	}
}

// TestJobTellsHowFarItIs and ends where nobody asks any more, or where memtrace ends.
func TestJobTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	j := newJobs(1 << 20)
	ctx, end := context.WithCancel(t.Context())
	j.ctx = ctx
	half, goOn, ended := make(chan bool), make(chan bool), make(chan error, 1)
	run := func(watch func(float64) error) (any, error) {
		err := watch(0.5)
		close(half)
		<-goOn
		err = errors.Join(err, watch(0.75))
		ended <- err
		return nil, err
	}
	if _, done, _ := j.get(t.Context(), "long", weighOne, run); done != 0 && done != 0.5 {
		t.Errorf("at first %v is done", done)
	}
	<-half
	if _, done, _ := j.get(t.Context(), "long", weighOne, run); done != 0.5 {
		t.Errorf("%v is done", done)
	}
	j.mu.Lock()
	j.running["long"].asked.Store(time.Now().Add(-2 * abandonJobs).UnixNano())
	j.mu.Unlock()
	close(goOn)
	if err := <-ended; !errors.Is(err, errAbandoned) {
		t.Errorf("it ended by %v", err)
	}
	end()
	if err := j.watch(&job{})(0); !errors.Is(err, context.Canceled) {
		t.Errorf("at memtrace's end: %v", err)
	}
}

// TestJobsAreBounded in number, and in what is kept; one that panics is an error.
func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	j := newJobs(10)
	answer := func(key string, run func(func(float64) error) (any, error)) error {
		for {
			if _, done, err := j.get(t.Context(), key, weighOne, run); done == 1 || err != nil {
				return err
			}
		}
	}
	for i := range 30 {
		if err := answer(fmt.Sprint(i), func(func(float64) error) (any, error) { return i, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(j.kept) != 10 || j.kept[9].key != "29" {
		t.Errorf("%d are kept", len(j.kept))
	}
	if err := answer("panic", func(func(float64) error) (any, error) { panic("no") }); err == nil {
		t.Error("a panic is no error")
	}
	stop := make(chan bool)
	defer close(stop)
	var err error
	for i := range maxJobs + 1 {
		_, err = j.find(fmt.Sprint("waits ", i), weighOne, func(func(float64) error) (any, error) { <-stop; return nil, nil })
	}
	if !errors.Is(err, errBusy) {
		t.Errorf("one too many: %v", err)
	}
}
