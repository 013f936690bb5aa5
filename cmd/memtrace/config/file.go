package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFile is how many bytes a file may have.
const MaxFile = 64 << 10

// Parse reads a file's text. A key is a flag's name, and holds for all commands that have the flag and can take the
// value; or it is a command's name, with the flags of that command below it. A relative path is one from the file's
// directory. Errors name the file, the line and the key; there is one for each key that is wrong.
func Parse(file string, text []byte, s Schema) ([]Entry, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%s: it has more than %d bytes", file, MaxFile)
	}
	root, err := document(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p := parser{file: file, schema: s}
	if root != nil {
		p.top(root)
	}
	return p.entries, errors.Join(p.wrong...)
}

// document is the root of the one document in a text; nil where there is none.
func document(text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var root yaml.Node
	if err := d.Decode(&root); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document: keep what stands before the line ---")
	}
	return root.Content[0], nil
}

type parser struct {
	file    string
	schema  Schema
	entries []Entry
	wrong   []error
}

func (p *parser) where(n *yaml.Node) string { return fmt.Sprintf("%s:%d", p.file, n.Line) }

func (p *parser) refuse(n *yaml.Node, format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Errorf("%s: "+format, append([]any{p.where(n)}, args...)...))
}

// pairs calls f for each key of a mapping.
func (p *parser) pairs(n *yaml.Node, f func(key, value *yaml.Node)) {
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch line := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			p.refuse(key, "a flag's name is wanted, such as interval: 5s")
		case line != 0:
			p.refuse(key, "%s: it stands in line %d, too", key.Value, line)
		default:
			seen[key.Value] = key.Line
			f(key, value)
		}
	}
}

func (p *parser) top(root *yaml.Node) {
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return // comments alone
	}
	if root.Kind != yaml.MappingNode {
		p.refuse(root, "flags with their values are wanted, such as interval: 5s")
		return
	}
	p.pairs(root, func(key, value *yaml.Node) {
		if value.Kind == yaml.MappingNode {
			p.command(key, value)
			return
		}
		p.flag("", key, value)
	})
}

// command reads what stands below a command's name.
func (p *parser) command(key, value *yaml.Node) {
	commands := p.schema.Commands()
	if !slices.Contains(commands, key.Value) {
		p.refuse(key, "%s: there is no such command with flags to set%s", key.Value, meant(key.Value, commands))
		return
	}
	p.pairs(value, func(flag, value *yaml.Node) { p.flag(key.Value, flag, value) })
}

func (p *parser) flag(command string, key, value *yaml.Node) {
	if names := p.schema.names(command); !slices.Contains(names, key.Value) {
		of := "there is no flag of this name"
		if slices.Contains(p.schema.Commands(), key.Value) {
			of = "it is a command: write its flags below it, indented"
		} else if command != "" {
			of = command + " has no flag of this name"
		}
		p.refuse(key, "%s: %s%s", key.Value, of, meant(key.Value, names))
		return
	}
	e := Entry{Command: command, Flag: key.Value, Where: p.where(key)}
	for _, v := range scalars(value) {
		if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
			p.refuse(v, "%s: a value is wanted", key.Value)
			return
		}
		e.Values = append(e.Values, v.Value)
	}
	if len(e.Values) == 0 {
		e.Values = []string{""} // [] is none
	}
	if err := p.schema.check(&e); err != nil {
		p.wrong = append(p.wrong, err)
		return
	}
	if e.Values[0] != "" && p.schema.of(&e)[0].File && !filepath.IsAbs(e.Values[0]) {
		e.Values[0] = filepath.Join(filepath.Dir(p.file), e.Values[0])
	}
	p.entries = append(p.entries, e)
}

func scalars(value *yaml.Node) []*yaml.Node {
	if value.Kind == yaml.SequenceNode {
		return value.Content
	}
	return []*yaml.Node{value}
}
