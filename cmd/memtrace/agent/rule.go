package agent

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/procfs/collect"
)

// Rule gives processes the name of a service. All that it asks must hold of a process, and it asks something.
type Rule struct {
	Name      string `yaml:"name"`
	Program   string `yaml:"program"`   // pattern of the name that ps shows, at most 15 letters: nginx, kworker*
	Command   string `yaml:"command"`   // regular expression, found anywhere in the command line
	Unit      string `yaml:"unit"`      // pattern of a systemd unit: postgresql@*.service
	Container string `yaml:"container"` // a container's or pod's ID, or its first digits; or its name where the group has it
	Cgroup    string `yaml:"cgroup"`    // a control group and all below it: /kubepods.slice
	Growth    bool   `yaml:"growth"`    // find the call stacks that the service's growth belongs to

	command *regexp.Regexp
}

// prepare checks a rule.
func (r *Rule) prepare() error {
	switch {
	case r.Name == "":
		return errors.New("it has no name: write name: NAME")
	case r.Name == otherServices:
		return fmt.Errorf("the name %s is that of all processes without a service: take another one", otherServices)
	case !isServiceName(r.Name):
		return fmt.Errorf("the name %q has control characters, or more than %d bytes", r.Name, maxServiceName)
	case r.Program == "" && r.Command == "" && r.Unit == "" && r.Container == "" && r.Cgroup == "":
		return fmt.Errorf("%s asks nothing of a process: give program, command, unit, container or cgroup", r.Name)
	case r.Cgroup != "" && !strings.HasPrefix(r.Cgroup, "/"):
		return fmt.Errorf("%s: cgroup: a control group's path begins with /, as in /proc/PID/cgroup: %q doesn't", r.Name, r.Cgroup)
	}
	for key, pattern := range map[string]string{"program": r.Program, "unit": r.Unit} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%s: %s: %q is no pattern: %w", r.Name, key, pattern, err)
		}
	}
	if r.Command != "" {
		var err error
		if r.command, err = regexp.Compile(r.Command); err != nil {
			return fmt.Errorf("%s: command: %w", r.Name, err)
		}
	}
	return nil
}

// matches reports whether a process is the rule's. What could not be read of it matches nothing.
func (r *Rule) matches(p *collect.Process) bool {
	if r.Program != "" && !fits(r.Program, p.Comm) {
		return false
	}
	if r.command != nil && !(p.Outcome(collect.Cmdline).Ok() && r.command.MatchString(p.Cmdline)) {
		return false
	}
	if r.Unit == "" && r.Container == "" && r.Cgroup == "" {
		return true
	}
	return p.Outcome(collect.Cgroup).Ok() &&
		(r.Unit == "" || fits(r.Unit, unitOf(p.Cgroup))) &&
		(r.Container == "" || cgroup.Within(p.Cgroup, r.Container)) &&
		(r.Cgroup == "" || isBelow(p.Cgroup, path.Clean(r.Cgroup)))
}

func fits(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func isBelow(group, top string) bool {
	return group == top || top == "/" || strings.HasPrefix(group, top+"/")
}

// unitOf is the innermost unit of systemd that a control group is of, "" where there is none.
func unitOf(group string) string {
	for group != "/" && group != "." && group != "" {
		name := path.Base(group)
		if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
			return strings.ReplaceAll(name, `\x2d`, "-")
		}
		group = path.Dir(group)
	}
	return ""
}
