//go:build linux && !viewer

package procfs

import (
	"fmt"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// OOMScore reads /proc/PID/oom_score, what the out-of-memory killer goes by:
// the process with the highest is killed first. The kernel gives 0 to about
// 2,000 (to 1,000 before Linux 5.9).
func (p *Process) OOMScore() (int, error) {
	v, err := p.readNumber(fileOOMScore)
	if err != nil {
		return 0, err
	}
	return int(v), nil
}

// OOMScoreAdj reads /proc/PID/oom_score_adj, -1000 (never kill) to 1000.
func (p *Process) OOMScoreAdj() (int, error) {
	v, err := p.readNumber(fileOOMAdj)
	if err != nil {
		return 0, err
	}
	return int(v), nil
}

// readNumber reads a file that holds one small number.
func (p *Process) readNumber(name string) (int64, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readSmall(name, buf[:])
	if err != nil {
		return 0, err
	}
	v, err := parseNumber(data)
	if err != nil {
		return 0, p.wrap("parse", plain(name), err)
	}
	return v, nil
}

// parseNumber parses a signed number of at most 31 bits on a line.
func parseNumber(data []byte) (int64, error) {
	digits := data
	negative := len(data) > 0 && data[0] == '-'
	if negative {
		digits = data[1:]
	}
	v, rest, ok := text.Decimal(digits)
	if !ok || v > 1<<31-1 || len(rest) > 1 || len(rest) == 1 && rest[0] != '\n' {
		return 0, fmt.Errorf("%w: %.40q", ErrFormat, data)
	}
	if negative {
		return -int64(v), nil
	}
	return int64(v), nil
}
