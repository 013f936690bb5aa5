package cmdline

import (
	"fmt"
	"strings"
)

// Markdown is the reference of all commands, as their help has it.
func (p *Program) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands and options\n\nWhat `%s --help`, `%s COMMAND --help` and `%s help TOPIC` print. `make docs` writes this file.\n",
		p.Name, p.Name, p.Name)
	block := func(heading, text string) {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s```\n", heading, text)
	}
	block(p.Name, p.Overview(DefaultWidth))
	for _, c := range p.visible() {
		block(p.Name+" "+c.Name, p.Help(c, DefaultWidth))
	}
	for i := range p.Topics {
		block(p.Name+" help "+p.Topics[i].Name, p.About(&p.Topics[i], DefaultWidth))
	}
	return b.String()
}
