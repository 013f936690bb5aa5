package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

const (
	// maxPasts is how many recordings are read at a time; more requests get a 503.
	maxPasts = 1
	// pastMemory is what reading one may take. It is done by a process of its own, as a tracer's work is.
	pastMemory = "64MiB"
	// pastPatience is how long it may take.
	pastPatience = time.Minute
	// maxPast bounds the profile that comes of it, bytes.
	maxPast = 8 << 20
)

var (
	errNotRecorded = errors.New("nothing is recorded of that time")
	errPastSize    = fmt.Errorf("the profile has more than %d bytes", maxPast)
)

// at is the recording that a service had at a time.
func (h *history) at(service string, at time.Time) (file string, err error) {
	all, err := h.segments(service)
	if err != nil {
		return "", err
	}
	for _, s := range slices.Backward(all) {
		if s.Begin.After(at) {
			continue
		}
		if s.End.Before(at) {
			break // it had ended, or has not come as far yet
		}
		return s.File, nil
	}
	return "", notRecorded(all)
}

// notRecorded says what there is, where something was asked for that isn't.
func notRecorded(all []Segment) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: there is no recording of the service yet", errNotRecorded)
	}
	return fmt.Errorf("%w: recordings are held from %s to %s, with gaps maybe: /services/NAME/recordings lists all %d", errNotRecorded,
		all[0].Begin.UTC().Format(time.RFC3339), all[len(all)-1].End.UTC().Format(time.RFC3339), len(all))
}

// pastOf is a service's profile as it was at a time, by the recording of then: since that began.
func (a *Agent) pastOf(ctx context.Context, x *watch, at time.Time) ([]byte, error) {
	file, err := x.history.at(x.service, at)
	if err != nil {
		return nil, err
	}
	if !a.pasts.take() {
		return nil, errBusy
	}
	defer a.pasts.give()
	p, err := a.recorded(ctx, x.service, file, at)
	if err != nil {
		return nil, err
	}
	return encoded(profile.Merge([]*profile.Profile{p}))
}

// recorded is the profile of a recording as it was at a time, at its end where that is zero.
func (a *Agent) recorded(ctx context.Context, service, file string, at time.Time) (*profile.Profile, error) {
	text, err := a.exported(ctx, service, file, at)
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseData(text)
	if err != nil {
		return nil, err
	}
	ofService(p)
	p.DurationNanos = 0 // it is no delta
	return p, nil
}

// exported has another memtrace make a profile of a recording.
func (a *Agent) exported(ctx context.Context, service, file string, at time.Time) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pastPatience)
	defer cancel()
	args, when := []string{"export", file, "--format", "pprof", "--memory", pastMemory}, "its end"
	if !at.IsZero() {
		args, when = append(args, "--at", at.UTC().Format(time.RFC3339Nano)), at.UTC().Format(time.RFC3339)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = "memtrace"
	cmd.Env = tracerEnvironment("")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	out := &capped{most: maxPast}
	cmd.Stdout, cmd.Stderr = out, &lineLog{to: a.log, prefix: "growth of " + service + ": "}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("read %s at %s: %w", file, when, errors.Join(err, ctx.Err()))
	}
	return out.Bytes(), nil
}

// capped holds so many bytes at most.
type capped struct {
	bytes.Buffer
	most int
}

func (c *capped) Write(b []byte) (int, error) {
	if c.Len()+len(b) > c.most {
		return 0, errPastSize
	}
	return c.Buffer.Write(b)
}
