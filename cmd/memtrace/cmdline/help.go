package cmdline

import (
	"strings"
)

// Widths of the help.
const (
	MinWidth     = 40
	MaxWidth     = 100
	DefaultWidth = 80
	optionColumn = 28
)

// Width is how wide help is on a terminal of so many columns, 0 where there is none.
func Width(columns int) int {
	if columns <= 0 {
		return DefaultWidth
	}
	return max(MinWidth, min(columns, MaxWidth))
}

// column is where texts begin; on a narrow terminal, closer to the left.
func (p *page) column() int { return min(optionColumn, p.width*35/100) }

// Overview is the program's help: one screen.
func (p *Program) Overview(width int) string {
	out := &page{width: width}
	out.paragraph(0, p.Name+": "+p.Summary)
	out.line("")
	out.paragraph(0, p.Root.Description)
	out.heading("Usage")
	for _, line := range p.Root.Synopsis {
		out.paragraph(2, line)
	}
	out.heading("Commands")
	for _, c := range p.visible() {
		out.row("  "+c.Name, 14, c.Summary)
	}
	out.heading("Examples")
	out.examples(p.Root.Examples)
	out.heading("Read on")
	names := make([]string, len(p.Topics))
	for i := range p.Topics {
		names[i] = p.Topics[i].Name
	}
	out.row("  "+p.Name+" COMMAND --help", 27, "the options of a command")
	out.row("  "+p.Name+" help TOPIC", 27, strings.Join(names, ", "))
	if !p.NoManual {
		out.row("  man "+p.Name, 27, "all of it; man "+p.Name+"-COMMAND for a command")
	}
	return out.String()
}

// Help is a command's help.
func (p *Program) Help(c *Command, width int) string {
	out := &page{width: width}
	out.paragraph(0, p.Name+" "+c.Name+": "+c.Summary)
	out.heading("Usage")
	for _, line := range c.Synopsis {
		out.paragraph(2, line)
	}
	if c.Description != "" {
		out.line("")
		out.prose(c.Description)
	}
	for _, g := range c.groups(p.Groups) {
		out.options(g, c.group(g))
	}
	if len(c.Examples) > 0 {
		out.heading("Examples")
		out.examples(c.Examples)
	}
	if len(c.Exit) > 0 {
		out.heading("Exit codes")
		for _, row := range c.Exit {
			out.row("  "+row.Key, 9, row.Text)
		}
	}
	out.see(p.Name, c.See)
	return out.String()
}

func (p *page) options(group string, options []Option) {
	if group == "" {
		group = "Other options"
	}
	p.heading(group)
	for i := range options {
		o := &options[i]
		short := "    "
		if o.Short != "" {
			short = "-" + o.Short + ", "
		}
		p.row("  "+short+o.Long(), p.column(), o.Sentence())
	}
}

// examples are written beside each other where all fit, else a text below each line.
func (p *page) examples(examples []Example) {
	widest := 0
	for _, e := range examples {
		widest = max(widest, columns(e.Line))
	}
	beside := true
	for _, e := range examples {
		beside = beside && 2+widest+2+columns(e.Text) <= p.width
	}
	for _, e := range examples {
		if beside {
			p.row("  "+e.Line, widest+4, e.Text)
			continue
		}
		p.command(e.Line)
		p.paragraph(6, e.Text)
	}
}

// command writes a line that is to be typed; one that is too long goes on below, as in a shell.
func (p *page) command(line string) {
	lines := wrap(line, p.width-6)
	for i, part := range lines {
		end := ""
		if i < len(lines)-1 {
			end = ` \`
		}
		p.line(strings.Repeat(" ", 2+2*min(i, 1)) + part + end)
	}
}

// prose writes paragraphs. Lines that begin with a blank are kept.
func (p *page) prose(text string) {
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			p.line("")
		}
		p.lines(paragraph)
	}
}

func (p *page) lines(paragraph string) {
	var flow []string
	flush := func() {
		p.paragraph(0, strings.Join(flow, " "))
		flow = nil
	}
	for line := range strings.SplitSeq(paragraph, "\n") {
		switch {
		case !strings.HasPrefix(line, " "):
			flow = append(flow, line)
		case columns(line) <= p.width:
			flush()
			p.line(line)
		default:
			flush()
			p.paragraph(len(line)-len(strings.TrimLeft(line, " ")), line)
		}
	}
	flush()
}

func (p *page) see(name string, see []string) {
	if len(see) == 0 {
		return
	}
	p.WriteByte('\n')
	lines := make([]string, len(see))
	for i := range see {
		lines[i] = name + " " + see[i]
	}
	p.paragraph(0, "See also: "+strings.Join(lines, ", "))
}

// About is a topic's text.
func (p *Program) About(t *Topic, width int) string {
	out := &page{width: width}
	out.prose(t.Text)
	return out.String()
}
