package cmdline

import (
	"strings"
	"time"
)

// Format is that of a file which the program reads. It has a manual page of section 5.
type Format struct {
	Name        string // of the page
	Summary     string // one line, no capital and no full stop
	Paths       []Row  // where such a file is, and which file that is
	Description string // paragraphs, as a Command's
	Groups      []Keys
	Examples    []FileExample
	See         []string // pages of section 1
}

// Keys are those of one place in a file.
type Keys struct {
	Title string
	Text  string // paragraphs, as a Command's
	Keys  []Key
}

// Key is one key of a file.
type Key struct {
	Name    string
	Metavar string // what its value is called; empty where Text says it
	Text    string // no capital and no full stop
	Default string // as written in the file; empty where there is none
}

// FileExample is a file's text, and what it does.
type FileExample struct{ Text, File string }

// manFormat is a format's manual page.
func (p *Program) manFormat(f *Format, date time.Time) string {
	m := p.manHead(f.Name, 5, f.Summary, date)
	m.macro("Sh DESCRIPTION")
	m.prose(f.Description)
	for i := range f.Groups {
		g := &f.Groups[i]
		m.macro("Ss %s", roff(g.Title))
		if g.Text != "" {
			m.prose(g.Text)
		}
		m.keys(g.Keys)
	}
	m.macro("Sh FILES")
	m.macro("Bl -tag -width Ds")
	for _, row := range f.Paths {
		m.macro("It Pa %s", roff(row.Key))
		m.text(sentence(upperFirst(row.Text)))
	}
	m.macro("El")
	if len(f.Examples) > 0 {
		m.macro("Sh EXAMPLES")
	}
	for i, e := range f.Examples {
		if i > 0 {
			m.macro("Pp")
		}
		m.text(sentence(upperFirst(e.Text)))
		m.literal(strings.Split(strings.Trim(e.File, "\n"), "\n")...)
	}
	m.macro("Sh SEE ALSO")
	m.references(f.See, nil)
	return m.String()
}

func (m *manual) keys(keys []Key) {
	if len(keys) == 0 {
		return
	}
	m.macro("Bl -tag -width Ds")
	for _, k := range keys {
		item := "Ic " + roff(k.Name) + " :"
		if k.Metavar != "" {
			item += ` Ar "` + roff(k.Metavar) + `"`
		}
		m.macro("It %s", item)
		m.text(sentence(upperFirst(k.Text)))
		if k.Default != "" {
			m.text("The default is " + k.Default + ".")
		}
	}
	m.macro("El")
}
