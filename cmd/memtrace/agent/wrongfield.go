package agent

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
)

// wrongField is an error about a field of a configuration.
type wrongField struct {
	path []any // names of fields and indexes of lists
	err  error
}

func (w *wrongField) Error() string { return w.err.Error() }
func (w *wrongField) Unwrap() error { return w.err }

// wrongIn is one about a field at the top.
func wrongIn(field, format string, args ...any) error {
	return &wrongField{[]any{field}, fmt.Errorf(field+": "+format, args...)}
}

// wrongAt is one about a field of an entry of a list, as far as err says which.
func wrongAt(list string, index int, what string, err error) error {
	path := []any{list, index}
	var field *alert.WrongField
	if errors.As(err, &field) && field.Field != "" {
		for part := range strings.SplitSeq(field.Field, ".") {
			path = append(path, part)
		}
	}
	return &wrongField{path, fmt.Errorf("%s: %s %d: %w", list, what, index+1, err)}
}

// withLine adds the line of the text that an error is about.
func withLine(err error, text []byte) error {
	var wrong *wrongField
	if !errors.As(err, &wrong) {
		return err
	}
	var document yaml.Node
	if yaml.Unmarshal(text, &document) != nil || len(document.Content) == 0 {
		return err
	}
	if line := lineOf(document.Content[0], wrong.path); line > 0 {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// lineOf is where a path leads, or the last of it that is there; 0 where nothing is.
func lineOf(at *yaml.Node, path []any) (line int) {
	for _, step := range path {
		if at.Kind == yaml.AliasNode {
			at = at.Alias
		}
		next, where := child(at, step)
		if next == nil {
			break
		}
		at, line = next, where
	}
	return line
}

func child(at *yaml.Node, step any) (next *yaml.Node, line int) {
	switch key := step.(type) {
	case int:
		if at.Kind == yaml.SequenceNode && key < len(at.Content) {
			return at.Content[key], at.Content[key].Line
		}
	case string:
		for i := 0; at.Kind == yaml.MappingNode && i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == key {
				return at.Content[i+1], at.Content[i].Line
			}
		}
	}
	return nil, 0
}

// checkAlerts is check of what is about alerts.
func (c *Config) checkAlerts() error {
	switch {
	case len(c.Alerts) > alert.MaxRules:
		return wrongIn("alerts", "%d are more than %d", len(c.Alerts), alert.MaxRules)
	case len(c.Receivers) > alert.MaxReceivers:
		return wrongIn("receivers", "%d are more than %d", len(c.Receivers), alert.MaxReceivers)
	}
	var names []string
	for i := range c.Receivers {
		if err := c.Receivers[i].Prepare(); err != nil {
			return wrongAt("receivers", i, "receiver", err)
		}
		names = append(names, c.Receivers[i].Name)
	}
	if i, err := alert.CheckNames(names); err != nil {
		return wrongAt("receivers", i, "receiver", err)
	}
	names = nil
	for i := range c.Alerts {
		if err := c.Alerts[i].Prepare(c.Receivers); err != nil {
			return wrongAt("alerts", i, "alert", err)
		}
		names = append(names, c.Alerts[i].Name)
	}
	if i, err := alert.CheckNames(names); err != nil {
		return wrongAt("alerts", i, "alert", err)
	}
	return nil
}
