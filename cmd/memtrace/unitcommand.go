//go:build linux && !viewer

package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// command is what it begins, word by word; nil where that is nothing.
func (u *serviceUnit) command() []string {
	words := unitWords(u.last("ExecStart"))
	if len(words) == 0 {
		return nil
	}
	words[0] = strings.TrimLeft(words[0], "@-:+!|")
	return words
}

// program is the file that it begins; "" where that can't be told.
func (u *serviceUnit) program() string {
	words := u.command()
	if len(words) == 0 || u.last("RootDirectory")+u.last("RootImage") != "" {
		return ""
	}
	path, ok := expanded(words[0])
	if !ok || !filepath.IsAbs(path) {
		return ""
	}
	return path
}

// A unitOption is an option of memtrace serve that a unit gives. value is as it says.
type unitOption struct{ name, value string }

// serveOptions are those that it begins memtrace serve with; said is how it says so, and untold what is known only as
// it runs. Both are "" where there is nothing.
func (u *serviceUnit) serveOptions() (opt agent.Options, said, untold string) {
	command := u.command()
	at := slices.Index(command, "serve")
	if at < 0 {
		return opt, "", ""
	}
	var all, unknown []string
	for _, o := range append(u.variables(), optionsIn(command[at+1:])...) {
		to := map[string]*string{"config": &opt.ConfigFile, "listen": &opt.Listen, "data": &opt.Data}[o.name]
		text := "--" + o.name + " " + o.value
		value, ok := expanded(o.value)
		switch {
		case to == nil:
			continue
		case !ok:
			unknown = append(unknown, text)
			continue
		case to != &opt.Listen && !filepath.IsAbs(value):
			value = filepath.Join("/", u.last("WorkingDirectory"), value)
		}
		*to = value
		all = append(all, "--"+o.name+" "+value)
	}
	return opt, strings.Join(all, " "), strings.Join(unknown, " ")
}

// variables are the options that stand in its environment: MEMTRACE_DATA, and before it MEMTRACE_SERVE_DATA.
func (u *serviceUnit) variables() (out []unitOption) {
	values := make(map[string]string)
	for _, word := range u.words("Environment") {
		name, value, _ := strings.Cut(word, "=")
		values[name] = value
	}
	for _, option := range []string{"config", "listen", "data"} {
		for _, command := range []string{"serve", ""} {
			if value := values[config.Variable(command, option)]; value != "" {
				out = append(out, unitOption{option, value})
				break
			}
		}
	}
	return out
}

// optionsIn are those among arguments.
func optionsIn(args []string) (out []unitOption) {
	for ; len(args) > 0; args = args[1:] {
		name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		if !strings.HasPrefix(args[0], "-") || !slices.Contains([]string{"config", "listen", "data"}, name) {
			continue
		}
		if !given {
			if len(args) == 1 {
				break
			}
			value, args = args[1], args[1:]
		}
		out = append(out, unitOption{name, value})
	}
	return out
}

// unitSpecifiers are what stands for the same on each system (systemd.unit(5)). What is left of a % or a $ is marked.
var unitSpecifiers = strings.NewReplacer("%%", "%", "%C", "/var/cache", "%E", "/etc", "%L", "/var/log",
	"%N", "memtrace", "%S", "/var/lib", "%n", serviceUnitName, "%p", "memtrace", "%t", "/run", "$$", "$",
	"%", untoldMark, "$", untoldMark)

const untoldMark = "\x00"

// expanded is a word with its specifiers replaced; ok is false where one, or a variable, is known only as it runs.
func expanded(word string) (text string, ok bool) {
	text = unitSpecifiers.Replace(word)
	return text, !strings.Contains(text, untoldMark)
}
