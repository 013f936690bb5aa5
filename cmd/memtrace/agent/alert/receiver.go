package alert

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Receiver is told of alerts: a command or a webhook.
type Receiver struct {
	Name        string        `yaml:"name"`
	Command     []string      `yaml:"command"`      // the file and its arguments; no shell
	Webhook     string        `yaml:"webhook"`      // URL
	WebhookFile string        `yaml:"webhook_file"` // a file that has it
	TokenFile   string        `yaml:"token_file"`   // a file with what is sent as Authorization: Bearer
	Timeout     time.Duration `yaml:"timeout"`      // of a command, or of one try of a webhook; 0: DefaultTimeout
}

const (
	DefaultTimeout = 10 * time.Second
	maxTimeout     = 5 * time.Minute
	maxSecret      = 64 << 10 // bytes of a file with a secret
)

// Prepare checks a receiver. What it names must be there.
func (r *Receiver) Prepare() error {
	given := 0
	for _, is := range []bool{len(r.Command) > 0, r.Webhook != "", r.WebhookFile != ""} {
		if is {
			given++
		}
	}
	switch {
	case r.Name == "":
		return wrong("", "it has no name: write name: NAME")
	case !isName(r.Name):
		return wrong("name", "%q has control characters, or more than %d bytes", r.Name, maxName)
	case given != 1:
		return wrong("", "%s has %d of command, webhook and webhook_file: give one", r.Name, given)
	case slices.ContainsFunc(r.Command, func(word string) bool { return strings.ContainsRune(word, 0) }):
		return wrong("command", "it has a NUL")
	case r.TokenFile != "" && len(r.Command) > 0:
		return wrong("token_file", "it is for a webhook, and %s is a command", r.Name)
	case r.Timeout != 0 && (r.Timeout < time.Second || r.Timeout > maxTimeout):
		return wrong("timeout", "%v is not from 1s to %v", r.Timeout, maxTimeout)
	}
	if err := r.checkTarget(); err != nil {
		return err
	}
	if r.TokenFile != "" {
		if _, err := readSecret(r.TokenFile); err != nil {
			return &WrongField{"token_file", err}
		}
	}
	return nil
}

func (r *Receiver) checkTarget() error {
	switch {
	case len(r.Command) > 0:
		if err := checkCommand(r.Command[0]); err != nil {
			return &WrongField{"command", err}
		}
	case r.Webhook != "":
		if _, err := checkURL(r.Webhook); err != nil {
			return &WrongField{"webhook", err}
		}
	default:
		if _, err := r.url(); err != nil {
			return &WrongField{"webhook_file", err}
		}
	}
	return nil
}

func checkCommand(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is no path from the root on, such as /usr/local/bin/tell: no shell looks for it", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is no file that can be run", path)
	}
	return nil
}

// checkURL parses an address. Its errors don't have it: it may be a secret.
func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("it is no address such as https://example.org/hook")
	}
	return u, nil
}

// url is the address to tell. It is read anew each time, so that it can be changed.
func (r *Receiver) url() (*url.URL, error) {
	if r.WebhookFile == "" {
		return checkURL(r.Webhook)
	}
	text, err := readSecret(r.WebhookFile)
	if err != nil {
		return nil, err
	}
	u, err := checkURL(text)
	if err != nil {
		return nil, fmt.Errorf("what %s has: %w", r.WebhookFile, err)
	}
	return u, nil
}

// readSecret is a file's text, without the end of its line.
func readSecret(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a FIFO waits for its writer
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(text))
	if line == "" || len(text) > maxSecret || strings.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("%s has not one line", path)
	}
	return line, nil
}

func (r *Receiver) timeout() time.Duration {
	if r.Timeout == 0 {
		return DefaultTimeout
	}
	return r.Timeout
}

func (r *Receiver) equal(o *Receiver) bool {
	return r.Name == o.Name && slices.Equal(r.Command, o.Command) && r.Webhook == o.Webhook &&
		r.WebhookFile == o.WebhookFile && r.TokenFile == o.TokenFile && r.Timeout == o.Timeout
}
