package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
)

// policy is what the page may do: run and show what this server sends, and nothing else.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A guard lets in who has the token, from pages of its own alone.
//
// Another page in the same browser can send requests here, and by DNS rebinding under a name of its own. So the Host must
// be one of ours, the browser must not call the request another site's, and the token comes in a cookie that browsers
// don't send along with requests of other sites.
type guard struct {
	token string
	host  string // as the address of the page has it
	port  string
	any   bool // every address of the machine is listened on
}

func newToken() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: see its documentation
	return hex.EncodeToString(b[:])
}

// serves notes where the page is. address is what the user asked for.
func (g *guard) serves(at *net.TCPAddr, address string) {
	g.port = strconv.Itoa(at.Port)
	g.any = at.IP.IsUnspecified()
	g.host = at.IP.String()
	if name, _, err := net.SplitHostPort(address); err == nil && name != "" && !g.any {
		g.host = name
	}
	if g.any {
		g.host = "localhost"
	}
}

func (g *guard) url() string {
	return "http://" + net.JoinHostPort(g.host, g.port) + "/?token=" + g.token
}

// cookie is named after the port, as cookies of one host are sent to all of its ports.
func (g *guard) cookie() string { return "memtrace_" + g.port }

// knows reports whether a Host is one of ours. Addresses in digits are no names that another could let point here.
func (g *guard) knows(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "80"
	}
	if port != g.port {
		return false
	}
	name = strings.ToLower(name)
	if name == strings.ToLower(g.host) {
		return true
	}
	at, err := netip.ParseAddr(name)
	switch {
	case name == "localhost", err == nil && at.IsLoopback():
		return g.any || loopback(g.host)
	case err == nil:
		return g.any
	}
	return false
}

func loopback(host string) bool {
	at, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && at.IsLoopback()
}

// wrap answers for those alone who may ask.
func (g *guard) wrap(next http.Handler, refused *atomic.Uint64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if code, why := g.refuse(r); code != 0 {
			refused.Add(1)
			http.Error(w, why, code)
			return
		}
		if r.URL.Query().Has("token") {
			http.SetCookie(w, &http.Cookie{Name: g.cookie(), Value: g.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		}
		next.ServeHTTP(w, r)
	})
}

// refuse says why a request is not answered; 0: it is.
func (g *guard) refuse(r *http.Request) (code int, why string) {
	entry := r.URL.Path == "/" && r.URL.Query().Has("token")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return http.StatusMethodNotAllowed, "memtrace: this page is for looking only"
	case !g.knows(r.Host):
		return http.StatusMisdirectedRequest, "memtrace: the page has another address than the one in this request"
	case r.Header.Get("Origin") != "" && r.Header.Get("Origin") != "http://"+r.Host:
		return http.StatusForbidden, "memtrace: another page asked for this"
	case !ownSite(r, entry):
		return http.StatusForbidden, "memtrace: another site asked for this"
	}
	given := r.URL.Query().Get("token")
	if c, err := r.Cookie(g.cookie()); err == nil && !entry {
		given = c.Value
	}
	if subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) != 1 || !entry && r.URL.Query().Has("token") {
		return http.StatusUnauthorized, fmt.Sprintf("memtrace: open the address that memtrace web has printed, with its token (this one is of port %s)", g.port)
	}
	return 0, ""
}

// ownSite reports whether a browser says that the request is of a page of ours, or of the person at it. A link to the
// page with its token may stand anywhere.
func ownSite(r *http.Request, entry bool) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return entry && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
