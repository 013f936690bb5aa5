package alert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

// Rule is a condition, and who is told when it has been met for some time.
type Rule struct {
	Name     string         `yaml:"name"`
	When     string         `yaml:"when"`     // such as swap>80%
	For      *time.Duration `yaml:"for"`      // it is met before it fires, and isn't before it is over; nil: DefaultFor
	Over     time.Duration  `yaml:"over"`     // that growth and oom_kills are looked at; 0: DefaultOver
	Severity string         `yaml:"severity"` // "": warning
	To       []string       `yaml:"to"`       // names of receivers; none: all of them
	Trace    *Trace         `yaml:"trace"`    // the service is traced as it begins to fire; nil: it isn't

	condition threshold.Condition
	figure    figure
}

const (
	DefaultFor  = time.Minute
	DefaultOver = time.Hour

	// MaxRules and MaxReceivers bound what a configuration may have.
	MaxRules     = 100
	MaxReceivers = 10

	maxFor  = 7 * 24 * time.Hour
	minOver = time.Minute
	maxOver = 7 * 24 * time.Hour
	maxName = 128
)

// WrongField is an error about one field of a rule or of a receiver.
type WrongField struct {
	Field string // as YAML has it; "" for the whole
	Err   error
}

func (w *WrongField) Error() string {
	if w.Field == "" {
		return w.Err.Error()
	}
	return w.Field + ": " + w.Err.Error()
}

func (w *WrongField) Unwrap() error { return w.Err }

func wrong(field, format string, args ...any) error {
	return &WrongField{field, fmt.Errorf(format, args...)}
}

// Prepare checks a rule, and makes it ready. receivers are those that there are.
func (r *Rule) Prepare(receivers []Receiver) error {
	switch {
	case r.Name == "":
		return wrong("", "it has no name: write name: NAME")
	case !isName(r.Name):
		return wrong("name", "%q has control characters, or more than %d bytes", r.Name, maxName)
	case r.When == "":
		return wrong("", "%s has no condition: write when: CONDITION, such as swap>80%%", r.Name)
	case strings.ContainsFunc(r.When, isUnprintable):
		return wrong("when", "%q has control characters", r.When)
	case r.Severity != "" && !isName(r.Severity):
		return wrong("severity", "%q has control characters, or more than %d bytes", r.Severity, maxName)
	case r.For != nil && (*r.For < 0 || *r.For > maxFor):
		return wrong("for", "%v is not from 0s to %v", *r.For, maxFor)
	case r.Over != 0 && (r.Over < minOver || r.Over > maxOver):
		return wrong("over", "%v is not from %v to %v", r.Over, minOver, maxOver)
	}
	for _, name := range r.To {
		if !slices.ContainsFunc(receivers, func(x Receiver) bool { return x.Name == name }) {
			return wrong("to", "there is no receiver %q", name)
		}
	}
	var err error
	if r.condition, err = threshold.Parse(r.When); err != nil {
		return &WrongField{"when", err}
	}
	if r.figure, err = resolve(r.condition); err != nil {
		return &WrongField{"when", err}
	}
	if r.Over != 0 && !r.figure.overTime() {
		return wrong("over", "it is for growth and oom_kills: %s is a figure of an instant; for says how long it must be met",
			r.condition.Metric)
	}
	return r.checkTrace()
}

// key tells a rule from those that mean something else: after another configuration was read, an alert goes on.
func (r *Rule) key() string { return r.Name + "\x00" + r.When }

func (r *Rule) holdsFor() time.Duration {
	if r.For == nil {
		return DefaultFor
	}
	return *r.For
}

func (r *Rule) over() time.Duration {
	if r.Over == 0 {
		return DefaultOver
	}
	return r.Over
}

func (r *Rule) severity() string {
	if r.Severity == "" {
		return "warning"
	}
	return r.Severity
}

func isName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, isUnprintable)
}

func isUnprintable(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }

// CheckNames refuses two rules or two receivers of one name: nobody could tell them apart.
func CheckNames(names []string) (index int, err error) {
	seen := make(map[string]bool)
	for i, name := range names {
		if seen[name] {
			return i, &WrongField{"name", errors.New(name + " is there twice")}
		}
		seen[name] = true
	}
	return 0, nil
}
