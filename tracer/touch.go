package tracer

import (
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/bpf"
)

// resolveTouchInTurns gives up stacks of page faults where there can't be any.
func (c Config) resolveTouchInTurns() (Config, error) {
	if !c.TouchInTurns {
		return c, nil
	}
	can := c.Sampling && c.Faults != FaultOff && c.Unwind != UnwindNone && c.StackDepth > 0
	if can {
		switch err := haveTaskRegs.Probe(); {
		case errors.Is(err, ErrNotSupported) || errors.Is(err, ErrNotPermitted):
			can = false
		case err != nil:
			return c, err
		}
	}
	c.TouchInTurns = can
	return c, nil
}

// TakeTouches has page faults have stacks (event.FaultTouch) from now on, or no more. The Tracer's Config must say
// TouchInTurns. It may be called at any time: what it costs counts in Hits.
func (t *Tracer) TakeTouches(on bool) error {
	if !t.config.TouchInTurns {
		return errors.New("take stacks at page faults: the tracer was made without")
	}
	var value uint32
	if on {
		value = 1
	}
	key := uint32(bpf.MemtraceSamplingKeySAMPLING_TOUCH)
	if err := t.kernel.coll.Maps[bpf.MemtraceMapSampling].Put(key, value); err != nil {
		return fmt.Errorf("switch stacks of page faults: %w", err)
	}
	return nil
}
