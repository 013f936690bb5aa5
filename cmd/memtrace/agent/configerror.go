package agent

import (
	"errors"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// The parser's words for what is wrong, which name Go's types.
var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type (\w+\.\w+)`)
	wrongType    = regexp.MustCompile("cannot unmarshal \\S+(?: (`.*`))? into (.+)$")
)

// inWords says what is wrong with a file as its author knows it: by line and field.
func inWords(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err
	}
	lines := make([]string, 0, len(wrong.Errors))
	for _, text := range wrong.Errors {
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = strings.Replace(text, m[0], "there is no field "+m[1]+"; there are "+fieldsOf(m[2]), 1)
		} else if m := wrongType.FindStringSubmatch(text); m != nil {
			text = strings.Replace(text, m[0], strings.TrimSpace(m[1]+" is not "+wanted(m[2])), 1)
		}
		lines = append(lines, text)
	}
	return errors.New(strings.Join(lines, "; "))
}

// fieldsOfTrace is what the parser knows the fields of an alert's trace as.
const fieldsOfTrace = "alert.traceFields"

func fieldsOf(name string) string {
	of := reflect.TypeFor[Config]()
	for _, other := range []reflect.Type{
		reflect.TypeFor[Rule](), reflect.TypeFor[alert.Rule](), reflect.TypeFor[alert.Receiver](), reflect.TypeFor[alert.Trace](),
	} {
		if other.String() == name || other == reflect.TypeFor[alert.Trace]() && name == fieldsOfTrace {
			of = other
		}
	}
	var names []string
	for i := range of.NumField() {
		if tag := of.Field(i).Tag.Get("yaml"); tag != "" {
			names = append(names, tag)
		}
	}
	return strings.Join(names, ", ")
}

func wanted(goType string) string {
	switch goType {
	case "time.Duration":
		return "a time, such as 10s"
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "agent.Rule":
		return "a rule: write name: NAME and what it asks"
	case "alert.Rule":
		return "an alert: write name: NAME and when: CONDITION"
	case "alert.Receiver":
		return "a receiver: write name: NAME and its command or webhook"
	case fieldsOfTrace:
		return "a time, such as 1m, nor fields, such as {for: 1m, every: 1h}"
	case "[]alert.Rule", "[]alert.Receiver", "[]string":
		return "a list: begin each with a dash"
	case "[]agent.Rule":
		return "a list of rules: begin each with a dash"
	case "agent.Config":
		return "a field with its value: write interval: 10s"
	}
	return "text"
}
