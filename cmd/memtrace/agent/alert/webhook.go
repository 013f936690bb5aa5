package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	maxRetryWait = time.Minute
	// maxTries of a message: with waits of 1, 2, 4 … 60 seconds between them, some ten minutes.
	maxTries  = 15
	maxAnswer = 4 << 10 // bytes that are read of an answer, so that a connection ends well
)

// errFinal is an answer that another try would not change.
var errFinal = errors.New("it will not be tried again")

// client follows nobody elsewhere: the message is for the address that the configuration has.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
	},
}

// post sends a message to a webhook, again and again where that may help.
func (n *Notifier) post(w *worker, body []byte) error {
	wait := n.first
	for try := 1; ; try++ {
		err := n.postOnce(w, body)
		if err == nil || errors.Is(err, errFinal) || try == maxTries {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-n.ctx.Done():
			timer.Stop()
			return fmt.Errorf("the agent ends: %w", err)
		}
		wait = min(2*wait, maxRetryWait)
	}
}

func (n *Notifier) postOnce(w *worker, body []byte) error {
	ctx, cancel := context.WithTimeout(n.ctx, w.timeout())
	defer cancel()
	to, err := w.url()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("its address cannot be used")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", n.opt.UserAgent)
	if w.TokenFile != "" {
		token, err := readSecret(w.TokenFile)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("ask %s: %w", to.Host, withoutURL(err))
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return fmt.Errorf("%s answers %d", to.Host, code)
	default:
		return fmt.Errorf("%s answers %d: %w", to.Host, code, errFinal)
	}
}

// withoutURL takes the address off an error: its path may be a secret, and errors go to a log.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
