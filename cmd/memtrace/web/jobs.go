package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An answer from a recording may take minutes. It is made in the background, for all who ask the same, while the page
// asks again and again and shows how far it is. One that nobody asks for any more is given up.

const (
	jobsAtOnce  = 2
	maxJobs     = 32 // that run or wait
	waitForJob  = 500 * time.Millisecond
	abandonJobs = 15 * time.Second
)

var (
	errAbandoned = errors.New("nobody waits for it any more")
	errBusy      = errors.New("too many questions at once: try again in a moment")
)

type job struct {
	key      string
	ready    chan struct{}
	progress atomic.Uint64 // bits of a float64
	asked    atomic.Int64  // when last, ns
	value    any
	err      error
	weight   uint64 // of value, bytes
}

type jobs struct {
	ctx     context.Context
	slots   chan struct{}
	room    uint64 // for what is kept
	mu      sync.Mutex
	running map[string]*job
	kept    []*job // the one that was asked for last is the last one
}

// newJobs keeps answers that take so many bytes.
func newJobs(room uint64) *jobs {
	slots := make(chan struct{}, jobsAtOnce)
	return &jobs{ctx: context.Background(), slots: slots, room: room, running: make(map[string]*job)}
}

// get returns an answer that is there or comes within a moment. done is the part of the work that is done; 1: all.
func (j *jobs) get(ctx context.Context, key string, weigh func(any) uint64, run func(watch func(float64) error) (any, error)) (value any, done float64, err error) {
	one, err := j.find(key, weigh, run)
	if err != nil {
		return nil, 0, err
	}
	one.asked.Store(time.Now().UnixNano())
	timer := time.NewTimer(waitForJob)
	defer timer.Stop()
	select {
	case <-one.ready:
		return one.value, 1, one.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, min(math.Float64frombits(one.progress.Load()), 0.999), nil
}

// find is the job of a question, which is begun where there is none.
func (j *jobs) find(key string, weigh func(any) uint64, run func(watch func(float64) error) (any, error)) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.IndexFunc(j.kept, func(k *job) bool { return k.key == key }); i >= 0 {
		one := j.kept[i]
		j.kept = append(slices.Delete(j.kept, i, i+1), one)
		return one, nil
	}
	if one := j.running[key]; one != nil {
		return one, nil
	}
	if len(j.running) >= maxJobs {
		return nil, errBusy
	}
	one := &job{key: key, ready: make(chan struct{})}
	one.asked.Store(time.Now().UnixNano())
	j.running[key] = one
	go j.work(one, weigh, run)
	return one, nil
}

func (j *jobs) work(one *job, weigh func(any) uint64, run func(watch func(float64) error) (any, error)) {
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
		if one.err = j.watch(one)(0); one.err == nil {
			one.value, one.err = caught(run, j.watch(one))
		}
	case <-j.ctx.Done():
		one.err = j.ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.running, one.key)
	if one.err == nil {
		one.weight = weigh(one.value)
		j.kept = append(j.kept, one)
		j.shrink()
	}
	close(one.ready)
}

// caught makes an error of a panic, as one file must not end the page of all.
func caught(run func(watch func(float64) error) (any, error), watch func(float64) error) (value any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the recording can't be read: %v", v)
		}
	}()
	return run(watch)
}

// watch is what a reading asks whether it is to go on.
func (j *jobs) watch(one *job) func(float64) error {
	return func(done float64) error {
		one.progress.Store(math.Float64bits(done))
		if err := j.ctx.Err(); err != nil {
			return err
		}
		if time.Since(time.Unix(0, one.asked.Load())) > abandonJobs {
			return errAbandoned
		}
		return nil
	}
}

// shrink drops the answers that were not asked for the longest, but for the last one.
func (j *jobs) shrink() {
	sum := uint64(0)
	for i := len(j.kept) - 1; i >= 0; i-- {
		if sum += j.kept[i].weight; sum > j.room && i < len(j.kept)-1 {
			j.kept = slices.Delete(j.kept, 0, i+1)
			return
		}
	}
}
