package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
)

// helpCommands explain memtrace, and describe it to shells and to man.
func helpCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "help", Usage: "explain a command or a topic",
			UsageText: "memtrace help [COMMAND|TOPIC]", Description: helpDescription(), Action: helpAction,
		},
		{
			Name: "completion", Usage: "print a script that completes memtrace's words in a shell",
			UsageText: "memtrace completion bash|zsh|fish", Action: completionAction,
			Description: "The shell then completes commands, options, their values, process IDs with their names, and files.",
		},
		{
			Name: "version", Usage: "print the version",
			UsageText: "memtrace version", Action: versionAction,
		},
		{Name: "__complete", Usage: "answer a shell", Hidden: true, SkipFlagParsing: true, HideHelp: true, Action: answerShell},
		{Name: "__manual", Usage: "write manual pages or the reference", Hidden: true, HideHelp: true, Action: writeManual},
	}
}

func helpDescription() string { return "Topics: " + strings.Join(topicNames, ", ") + "." }

// showHelp is what --help prints; package cli calls it with what to explain.
func showHelp(w io.Writer, _ string, about any) {
	p, width := commandLine(), cmdline.Width(terminalWidth())
	text := p.Overview(width)
	if c, ok := about.(*cli.Command); ok {
		if named := p.Find(c.Name); named != nil {
			text = p.Help(named, width)
		}
	}
	_, _ = io.WriteString(w, text)
}

// unknownKey is where noHelp leaves its error, as package cli takes none.
const unknownKey = "unknown"

// noHelp is what --help says before a word that is no command.
func noHelp(c *cli.Context, name string) { c.App.Metadata[unknownKey] = noHelpOn(name) }

func noHelpOn(name string) error {
	return usageError("no help on %q%s (topics: %s; memtrace --help lists the commands)",
		name, didYouMean(name, helpWords()), strings.Join(topicNames, ", "))
}

// helpAction prefers topics to commands: leaks is both, and the topic names the command.
func helpAction(c *cli.Context) error {
	p, width := commandLine(), cmdline.Width(terminalWidth())
	name := c.Args().First()
	text := p.Overview(width)
	if topic := p.Topic(name); topic != nil {
		text = p.About(topic, width)
	} else if command := p.Find(name); command != nil && !command.Hidden {
		text = p.Help(command, width)
	} else if name != "" {
		return noHelpOn(name)
	}
	_, err := io.WriteString(c.App.Writer, text)
	return err
}

func versionAction(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	cli.ShowVersion(c)
	return nil
}

// didYouMean is a question to add to an error about a misspelt word; empty
// where nothing is close to it.
func didYouMean(word string, words []string) string {
	if near := cmdline.Nearest(word, words); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

func completionAction(c *cli.Context) error {
	shell := c.Args().First()
	if c.NArg() != 1 {
		return usageError("name one shell: memtrace completion %s", strings.Join(cmdline.Shells(), "|"))
	}
	text, err := commandLine().Script(shell)
	if err != nil {
		return noneOf("shell", shell, cmdline.Shells())
	}
	_, err = io.WriteString(c.App.Writer, text)
	return err
}

// answerShell is called as __complete SHELL WORD..., the words after memtrace's name.
func answerShell(c *cli.Context) error {
	answer := commandLine().Complete(c.Args().Tail(), machine{})
	return answer.Write(c.App.Writer)
}

// writeManual is called as __manual DIRECTORY, for manual pages in man1 and man5 below it, or __manual markdown.
func writeManual(c *cli.Context) error {
	if c.Args().First() == "markdown" {
		_, err := io.WriteString(c.App.Writer, commandLine().Markdown())
		return err
	}
	date, dir := time.Now(), c.Args().First()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(seconds, 0) // so that two builds are the same
	}
	for name, text := range manualPages(date) {
		section := filepath.Join(dir, "man"+strings.TrimPrefix(filepath.Ext(name), "."))
		if err := os.MkdirAll(section, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(section, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manualPages are all of them by their files' names.
func manualPages(date time.Time) map[string]string {
	p := commandLine()
	p.Formats = fileFormats(p)
	return p.ManPages(date)
}
