package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve serves a page without files, and returns its address, port and token.
func serve(t *testing.T) (s *Server, base, port, token string) {
	t.Helper()
	s = New(nil, "test", SharesOf(1<<30, 1))
	l, url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	base, token, _ = strings.Cut(url, "/?token=")
	return s, base, base[strings.LastIndexByte(base, ':')+1:], token
}

// noRedirects asks once.
var noRedirects = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, method, url string, header map[string]string) (code int, body string, head http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	answer, err := noRedirects.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// TestWhoMayAsk has those ask who must not, and those who may.
func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	_, base, port, token := serve(t)
	cookie := "memtrace_" + port + "=" + token
	with := func(more ...string) map[string]string {
		out := map[string]string{"Cookie": cookie}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for _, c := range []struct {
		name, method, path string
		header             map[string]string
		code               int
	}{
		{"the token", "GET", "/?token=" + token, nil, 200},
		{"its cookie", "GET", "/api/files", with(), 200},
		{"by another name of this machine", "GET", "/api/files", with("Host", "localhost:"+port), 200},
		{"by IPv6", "GET", "/api/files", with("Host", "[::1]:"+port), 200},
		{"from the page", "GET", "/api/files", with("Sec-Fetch-Site", "same-origin", "Origin", base), 200},
		{"a link on another site", "GET", "/?token=" + token, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		{"without token", "GET", "/", nil, 401},
		{"without cookie", "GET", "/api/files", nil, 401},
		{"without, a part of the page", "GET", "/page/app.js", nil, 401},
		{"another token", "GET", "/?token=" + strings.Repeat("0", len(token)), nil, 401},
		{"no token", "GET", "/?token=", with(), 401},
		{"the token elsewhere than at the door", "GET", "/api/files?token=" + token, nil, 401},
		{"another port's cookie", "GET", "/api/files", map[string]string{"Cookie": "memtrace_1=" + token}, 401},
		{"DNS rebinding", "GET", "/api/files", with("Host", "evil.example:"+port), 421},
		{"DNS rebinding with the token", "GET", "/?token=" + token, map[string]string{"Host": "evil.example:" + port}, 421},
		{"a name that begins alike", "GET", "/api/files", with("Host", "127.0.0.1.evil.example:"+port), 421},
		{"another address", "GET", "/api/files", with("Host", "192.0.2.1:"+port), 421},
		{"another port", "GET", "/api/files", with("Host", "127.0.0.1:1"), 421},
		{"another origin", "GET", "/api/files", with("Origin", "http://evil.example"), 403},
		{"no origin", "GET", "/api/files", with("Origin", "null"), 403},
		{"another site", "GET", "/api/files", with("Sec-Fetch-Site", "cross-site"), 403},
		{"another port of this machine", "GET", "/api/files", with("Sec-Fetch-Site", "same-site"), 403},
		{"in a frame of another site", "GET", "/?token=" + token, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		{"a form", "POST", "/api/files", with(), 405},
		{"a file of the machine", "GET", "/page/..%2f..%2fserver.go", with(), 404},
		{"nothing", "GET", "/api/none", with(), 404},
	} {
		code, body, head := get(t, c.method, base+c.path, c.header)
		if code != c.code {
			t.Errorf("%s: %d, want %d: %s", c.name, code, c.code, body)
		}
		if code != 200 && strings.Contains(body, token) {
			t.Errorf("%s: the answer tells the token: %s", c.name, body)
		}
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'self'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if !strings.Contains(head.Get(name), want) || strings.Contains(head.Get(name), "unsafe") {
				t.Errorf("%s: %s is %q", c.name, name, head.Get(name))
			}
		}
	}
}

// TestCookie is for this page alone.
func TestCookie(t *testing.T) {
	t.Parallel()
	_, base, port, token := serve(t)
	_, _, head := get(t, "GET", base+"/?token="+token, nil)
	if got, want := head.Get("Set-Cookie"), "memtrace_"+port+"="+token+"; Path=/; HttpOnly; SameSite=Strict"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, _, head := get(t, "GET", base+"/", nil); head.Get("Set-Cookie") != "" {
		t.Error("a cookie without the token")
	}
}

// TestPageRunsNoInlineScript looks for what the policy would forbid, and for anything from elsewhere.
func TestPageRunsNoInlineScript(t *testing.T) {
	t.Parallel()
	entries, err := pageFiles.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for _, e := range entries {
		text, err := pageFiles.ReadFile("page/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"<style", " style=", " onclick=", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "import('http"} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s has %q", e.Name(), bad)
			}
		}
		if strings.HasSuffix(e.Name(), ".js") {
			scripts += len(text)
		}
	}
	if scripts > 150_000 || scripts == 0 {
		t.Errorf("%d bytes of JavaScript", scripts)
	}
}

// TestSlowClients hold connections and send nothing, and others are answered all the same; the end does not wait for them.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	_, base, port, token := serve(t)
	for range maxConnections - 20 {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(base, "http://"), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: 127.0.0.1:"+port+"\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if code, body, _ := get(t, "GET", base+"/api/files", map[string]string{"Cookie": "memtrace_" + port + "=" + token}); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}
