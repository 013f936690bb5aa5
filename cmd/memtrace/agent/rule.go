package agent

import (
	"errors"
	"fmt"
	"os/user"
	"path"
	"regexp"
	"strconv"
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
	Container string `yaml:"container"` // a container's or pod's ID, or its first digits; or its name where that is known
	Cgroup    string `yaml:"cgroup"`    // a control group and all below it: /kubepods.slice
	Namespace string `yaml:"namespace"` // pattern of a Kubernetes namespace
	Pod       string `yaml:"pod"`       // pattern of a pod's name: shop-*
	User      string `yaml:"user"`      // by name or number; the user's own groups then count for unit and container
	Growth    bool   `yaml:"growth"`    // find the call stacks that the service's growth belongs to

	command *regexp.Regexp
	uid     uint32 // of User
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
	case r.Program == "" && r.Command == "" && r.User == "" && !r.asksForGroup():
		return fmt.Errorf("%s asks nothing of a process: give program, command, unit, container, cgroup, namespace, pod "+
			"or user", r.Name)
	case r.Cgroup != "" && !strings.HasPrefix(r.Cgroup, "/"):
		return fmt.Errorf("%s: cgroup: a control group's path begins with /, as in /proc/PID/cgroup: %q doesn't", r.Name, r.Cgroup)
	}
	patterns := map[string]string{"program": r.Program, "unit": r.Unit, "namespace": r.Namespace, "pod": r.Pod}
	for key, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%s: %s: %q is no pattern: %w", r.Name, key, pattern, err)
		}
	}
	if r.User != "" {
		var err error
		if r.uid, err = uidOf(r.User); err != nil {
			return fmt.Errorf("%s: user: %w", r.Name, err)
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

// uidOf is the number of a user.
func uidOf(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("look up %q: %w: give a user of this machine, or a number", name, err)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("look up %q: its number is %q", name, u.Uid)
	}
	return uint32(n), nil
}

// anybodys reports whether every user's process can be the rule's: programs are called what their users like.
func (r *Rule) anybodys() bool {
	return r.User == "" && !r.asksForGroup()
}

// asksForGroup reports whether the rule goes by the control group. The root group with all below it asks for nothing.
func (r *Rule) asksForGroup() bool {
	inGroup := r.Cgroup != "" && path.Clean(r.Cgroup) != "/"
	return r.Unit != "" || r.Container != "" || inGroup || r.Namespace != "" || r.Pod != ""
}

// matches reports whether a process is the rule's. What could not be read of it matches nothing.
func (r *Rule) matches(p *collect.Process, group processGroup) bool {
	if r.Program != "" && !fits(r.Program, p.Comm) {
		return false
	}
	if r.command != nil && !(p.Outcome(collect.Cmdline).Ok() && r.command.MatchString(p.Cmdline)) {
		return false
	}
	if r.User != "" && (group.user == unknownUser || group.user != r.uid) {
		return false
	}
	return !r.asksForGroup() || group.known && r.matchesGroup(group)
}

// matchesGroup goes by what root has called the group, and by what a user has only if the rule asks for that user.
func (r *Rule) matchesGroup(group processGroup) bool {
	as := group.path
	if group.rest && (r.User == "" || group.owner != r.uid) {
		as = group.byRoot
	}
	return (r.Unit == "" || fits(r.Unit, unitOf(as))) &&
		(r.Container == "" || r.Container == group.pod.container || cgroup.Within(as, r.Container)) &&
		(r.Namespace == "" || group.pod != pod{} && fits(r.Namespace, group.pod.namespace)) &&
		(r.Pod == "" || group.pod != pod{} && fits(r.Pod, group.pod.name)) &&
		(r.Cgroup == "" || isBelow(group.path, path.Clean(r.Cgroup)))
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
