package agent

import (
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/procfs/collect"
)

// Service is what the processes of one service came to in a pass. Sizes are bytes.
type Service struct {
	Name      string `json:"service"`
	Processes int    `json:"processes"`
	Threads   uint64 `json:"threads"`

	// RSS counts a page that two processes share twice.
	RSS uint64 `json:"rss"`
	// Of these, the figures of Unread processes are not in the sums, as they could not be read yet or at all. PSS
	// counts a shared page in parts, so that the services add up.
	PSS    uint64 `json:"pss"`
	Anon   uint64 `json:"pss_anon"`
	File   uint64 `json:"pss_file"`
	Shmem  uint64 `json:"pss_shmem"`
	USS    uint64 `json:"uss"`
	Swap   uint64 `json:"swap"`
	Unread int    `json:"unread_processes"`
	// ReadAt is when the oldest figure in PSS was read; zero where none was.
	ReadAt time.Time `json:"read_at"`

	// Counted since the agent saw the service first, while the processes lived.
	MinorFaults uint64        `json:"minor_faults"`
	MajorFaults uint64        `json:"major_faults"`
	CPU         time.Duration `json:"cpu_ns"`
	Started     uint64        `json:"processes_started"`
}

const (
	otherServices  = alert.SumOfOthers
	maxServiceName = 128
)

// isServiceName reports whether a name may stand in a label and on a terminal.
func isServiceName(name string) bool {
	return name != "" && len(name) <= maxServiceName && !strings.ContainsFunc(name, isUnprintable)
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// printable makes a name of a process's own choice one that isServiceName takes.
func printable(name string) string {
	name = marked(strings.ToValidUTF8(name, "?"))
	for len(name) > maxServiceName {
		name = name[:len(name)-1]
	}
	return strings.ToValidUTF8(name, "?")
}

// marked is a text with a ? in place of whatever moves a terminal's cursor or can't be seen.
func marked(text string) string {
	return strings.Map(func(r rune) rune {
		if isUnprintable(r) {
			return '?'
		}
		return r
	}, text)
}

// serviceOf names the service of a process. named says that a rule did; user is who has had the process called so, 0 being
// root, and unknownUser for a rule that everybody's process fits. What users can call as they like, groups of their own and
// programs, has their number in its name: it is not to be counted with another's.
func (c *Config) serviceOf(p *collect.Process, group processGroup) (name string, user uint32, named bool) {
	for i := range c.Services {
		if r := &c.Services[i]; r.matches(p, group) {
			if r.anybodys() {
				user = unknownUser
			}
			return r.Name, user, true
		}
	}
	if c.Others == OthersNone {
		return otherServices, 0, false
	}
	if c.Others == OthersUnit && group.pod != (pod{}) {
		return ofUser(group.pod.namespace+"/"+group.pod.name, 0), 0, false
	}
	if c.Others == OthersUnit && group.known {
		if name, part := groupName(group.path); name != "" {
			user = group.ownerOf(part)
			return ofUser(name, user), user, false
		}
	}
	return ofUser(p.Comm, group.user), group.user, false
}

// ofUser is what a service of a user's is called: see usersFolder. Root's have plain names, which end like no user's.
func ofUser(name string, uid uint32) string {
	suffix := ""
	switch uid {
	case 0:
	case unknownUser:
		suffix = " (unknown user)"
	default:
		suffix = fmt.Sprintf(" (user %d)", uid)
	}
	name = printable(name)
	if suffix == "" && strings.Contains(name, " (") {
		name = strings.TrimRight(name, ")")
	}
	for len(name)+len(suffix) > maxServiceName {
		name = strings.ToValidUTF8(name[:len(name)-1], "")
	}
	return name + suffix
}

// groupName names a container or a unit by its control group, and says which part of the path that is; "" for groups
// that are neither, such as a login's.
func groupName(group string) (name, part string) {
	for at := group; at != "/" && at != "." && at != ""; at = path.Dir(at) {
		if name := cgroup.Label(at); name != "" && !strings.HasPrefix(name, "user@") {
			return name, at
		}
	}
	return "", ""
}

// add counts a process in.
func (s *Service) add(p *collect.Process) {
	s.Processes++
	s.Threads += p.Threads
	s.RSS += p.RSS
	pss, outcome := p.PSS()
	if !outcome.Ok() {
		s.Unread++
		return
	}
	uss, _ := p.USS()
	swap, _ := p.Swap()
	s.PSS += pss
	s.USS += uss
	s.Swap += swap
	s.Anon += p.Memory.PssAnon
	s.File += p.Memory.PssFile
	s.Shmem += p.Memory.PssShmem
	if s.ReadAt.IsZero() || p.MemoryAt.Before(s.ReadAt) {
		s.ReadAt = p.MemoryAt
	}
}

// merge counts another service in.
func (s *Service) merge(o *Service) {
	s.Processes += o.Processes
	s.Threads += o.Threads
	s.RSS += o.RSS
	s.PSS += o.PSS
	s.Anon += o.Anon
	s.File += o.File
	s.Shmem += o.Shmem
	s.USS += o.USS
	s.Swap += o.Swap
	s.Unread += o.Unread
	if s.ReadAt.IsZero() || !o.ReadAt.IsZero() && o.ReadAt.Before(s.ReadAt) {
		s.ReadAt = o.ReadAt
	}
}
