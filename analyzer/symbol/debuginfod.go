package symbol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Bounds of one download where the environment sets no others.
	defaultFetchTime = 90 * time.Second
	defaultFetchSize = 2 << 30
	// maxAsked and maxFetched bound the build IDs of a run that servers are asked for,
	// and the bytes that they send: a target may map any number of files, with build IDs
	// of its choice.
	maxAsked   = 4096
	maxFetched = 16 << 30
	// askShare: for the files of a user other than root, no more is asked and fetched than one part in so many of what
	// is left. The first user gets most, but the next one always gets some.
	askShare = 3
	// missFor is how long a file that no server has is not asked for again.
	missFor = 600 * time.Second
)

// DebuginfodURLs are the servers in DEBUGINFOD_URLS (debuginfod(8)).
func DebuginfodURLs() []string { return strings.Fields(os.Getenv("DEBUGINFOD_URLS")) }

// debuginfod fetches debug files by build ID and keeps them where the client
// of elfutils does (debuginfod_find_debuginfo(3)). A nil one has none.
type debuginfod struct {
	servers  []string
	cache    string // directory
	time     time.Duration
	size     int64
	client   http.Client
	warnings *warnings
	ended    context.Context // no server is waited for any more
	end      context.CancelFunc

	mu      sync.Mutex
	waiting int            // for servers, at present
	dead    map[asker]bool // servers that failed: they are left alone
	asks    int            // build IDs that may still be asked for
	left    int64          // bytes that may still be fetched
	askers  map[uint32]*asked
}

// asker is a server, and the user for whose files it is asked. What a server makes of a build ID is its user's affair:
// one that it has to send 2 GB for, or refuses, must not end the names of others.
type asker struct {
	server string
	owner  uint32
}

// asked is what was asked for the files of a user other than root.
type asked struct {
	files  int
	bytes  int64
	missed time.Duration // that it took to hear that there is no such file
}

// newDebuginfod makes a client for the servers; nil where there are none. The
// environment sets its bounds: DEBUGINFOD_CACHE_PATH, DEBUGINFOD_TIMEOUT and
// DEBUGINFOD_MAXTIME in seconds, DEBUGINFOD_MAXSIZE in bytes.
func newDebuginfod(servers []string, w *warnings) *debuginfod {
	if len(servers) == 0 {
		return nil
	}
	d := &debuginfod{
		servers: servers, time: defaultFetchTime, size: defaultFetchSize, warnings: w, dead: map[asker]bool{},
		asks: maxAsked, left: maxFetched, askers: map[uint32]*asked{},
	}
	d.ended, d.end = context.WithCancel(context.Background())
	d.client.CheckRedirect = checkRedirect
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.DisableCompression = true // what a server sends is no more than it looks
		d.client.Transport = t
	}
	for _, name := range []string{"DEBUGINFOD_TIMEOUT", "DEBUGINFOD_MAXTIME"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
			d.time = time.Duration(n) * time.Second
		}
	}
	if n, err := strconv.ParseInt(os.Getenv("DEBUGINFOD_MAXSIZE"), 10, 64); err == nil && n > 0 {
		d.size = n
	}
	if d.cache = os.Getenv("DEBUGINFOD_CACHE_PATH"); d.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			w.add("debuginfod", fmt.Sprintf("fetch debug files: %v; set DEBUGINFOD_CACHE_PATH", err))
			return nil
		}
		d.cache = filepath.Join(dir, "debuginfod_client")
	}
	return d
}

// checkRedirect follows no server from an encrypted connection to one that is not, nor without end.
func checkRedirect(to *http.Request, via []*http.Request) error {
	const most = 5
	switch {
	case len(via) > most:
		return fmt.Errorf("it leads on more than %d times", most)
	case to.URL.Scheme != "https" && via[0].URL.Scheme == "https":
		return fmt.Errorf("it leads from https to %s", to.URL.Scheme)
	}
	return nil
}

// errInterrupted: a signal came.
var errInterrupted = errors.New("fetch debug files: interrupted by a signal; what was not there by then is not fetched")

// interrupt ends the waits for servers, and then none is asked any more. Where none is waited for, it does nothing.
func (d *debuginfod) interrupt() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting > 0 {
		d.end()
	}
}

// stop ends all waits for servers, now and later.
func (d *debuginfod) stop() {
	if d != nil {
		d.end()
	}
}

// wait begins a wait for a server, which ends with the context. done must follow.
func (d *debuginfod) wait() (ctx context.Context, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting++
	ctx, cancel := context.WithTimeout(d.ended, d.time)
	return ctx, func() {
		cancel()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting--
	}
}

// find returns the debug file of a build ID, from the cache or a server. owner is the user whose file has the build ID.
func (d *debuginfod) find(buildID string, owner uint32) *image {
	if d == nil || len(buildID) < 16 {
		return nil
	}
	dir, err := openPrivateDir(filepath.Join(d.cache, buildID))
	if err != nil {
		d.warnings.add(d.cache, fmt.Sprintf("keep debug files: %v", err))
		return nil
	}
	defer unix.Close(dir)
	const name = "debuginfo"
	img, missing := d.cached(dir, name, buildID)
	if img != nil || missing {
		return img
	}
	if d.ended.Err() != nil {
		d.warnings.add("interrupt", errInterrupted.Error())
		return nil
	}
	if err := d.mayAsk(owner); err != nil {
		d.warnings.add(fmt.Sprintf("debuginfod %d", owner), err.Error())
		return nil
	}
	sure := true // that no server has it
	for _, server := range d.servers {
		if d.isDead(server, owner) {
			sure = false
			continue
		}
		img, err := d.fetch(asker{server, owner}, dir, name, buildID)
		if img != nil {
			return img
		}
		if d.ended.Err() != nil { // which is no fault of the server's
			d.warnings.add("interrupt", errInterrupted.Error())
			return nil
		}
		if err != nil {
			sure = false
			d.warnings.add(server, err.Error())
		}
	}
	if sure {
		// An empty file says so to elfutils' client, too.
		if fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600); err == nil {
			unix.Close(fd)
		}
	}
	return nil
}

// cached opens a file fetched earlier; missing says that no server had it
// lately.
func (d *debuginfod) cached(dir int, name, buildID string) (img *image, missing bool) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == 0 {
		unix.Close(fd)
		return nil, st.Size == 0 && time.Since(time.Unix(st.Mtim.Unix())) < missFor
	}
	img, _ = debugImage(fd, path.Join(d.cache, buildID, name), hasBuildID(buildID)) // one that can't be read is fetched again
	return img, false
}

func hasBuildID(id string) func(*image) bool {
	return func(img *image) bool { return img.buildID == id }
}

// mayAsk takes one of the build IDs that may be asked for. The error says why there is none for the owner's files.
func (d *debuginfod) mayAsk(owner uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asks <= 0 || d.left <= 0 {
		return fmt.Errorf("fetch debug files: %d files or %d bytes are enough of one run; the rest is not fetched",
			maxAsked, int64(maxFetched))
	}
	mine := d.of(owner)
	switch {
	case owner == 0:
	case mine.files >= d.asks/askShare || mine.bytes >= d.left/askShare:
		return fmt.Errorf("fetch debug files: user %d's programs have asked for %d files, with %d bytes: others are to "+
			"have some, too, and the rest is not fetched", owner, mine.files, mine.bytes)
	case mine.missed > d.time:
		return fmt.Errorf("fetch debug files: user %d's programs have asked for %v for files that no server has: the "+
			"rest is not fetched", owner, d.time)
	}
	d.asks--
	mine.files++
	return nil
}

// of is what was asked for an owner's files.
func (d *debuginfod) of(owner uint32) *asked {
	if d.askers[owner] == nil {
		d.askers[owner] = &asked{}
	}
	return d.askers[owner]
}

// took counts what a server has sent.
func (d *debuginfod) took(owner uint32, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left -= n
	d.of(owner).bytes += n
}

// most is how large a file may be that is fetched for an owner's, in bytes.
func (d *debuginfod) most(owner uint32) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if owner == 0 {
		return d.size
	}
	return min(d.size, max(0, d.left/askShare-d.of(owner).bytes))
}

// missed counts how long it took to hear that a server has no such file.
func (d *debuginfod) missed(owner uint32, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of(owner).missed += took
}

// isDead reports whether a server has failed for an owner's files, or for root's: these are asked for by no build ID
// that others have chosen.
func (d *debuginfod) isDead(server string, owner uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead[asker{server, owner}] || d.dead[asker{server, 0}]
}

func (d *debuginfod) giveUp(who asker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead[who] = true
}

// fetch gets the file from one server; nil without an error where the server
// doesn't have it.
func (d *debuginfod) fetch(who asker, dir int, name, buildID string) (*image, error) {
	ctx, done := d.wait()
	defer done()
	from, err := url.JoinPath(who.server, "buildid", buildID, "debuginfo")
	if err != nil {
		return nil, fmt.Errorf("fetch a debug file from %s: %w", who.server, err)
	}
	began := time.Now()
	body, err := d.get(ctx, from)
	if err != nil {
		if unreachable(err, from) {
			who.owner = 0
		}
		d.giveUp(who)
		return nil, fmt.Errorf("fetch %s: %w; the server will not be asked again%s", from, err, forUser(who.owner))
	}
	if body == nil {
		d.missed(who.owner, time.Since(began))
		return nil, nil
	}
	defer body.Close()
	img, err := d.save(body, dir, name, buildID, who.owner)
	if ctx.Err() != nil {
		// So slow a server would be waited for at every file.
		d.giveUp(who)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", from, err)
	}
	return img, nil
}

// forUser says for whose files something holds.
func forUser(owner uint32) string {
	if owner == 0 {
		return ""
	}
	return fmt.Sprintf(" for user %d's programs", owner)
}

// unreachable reports whether an error says that nobody answers at an address, whatever is asked for.
func unreachable(err error, from string) bool {
	var at *url.Error
	var op *net.OpError
	return errors.As(err, &at) && at.URL == from && errors.As(err, &op) && op.Op == "dial"
}

// get returns the content at an address; nil where there is none.
func (d *debuginfod) get(ctx context.Context, from string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "memtrace")
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return response.Body, nil
	case http.StatusNotFound:
		response.Body.Close()
		return nil, nil
	}
	response.Body.Close()
	return nil, fmt.Errorf("the server says %q", response.Status)
}

// save writes the file beside its place, makes sure that it is the right one
// and moves it there.
func (d *debuginfod) save(body io.Reader, dir int, name, buildID string, owner uint32) (*image, error) {
	temp := name + "." + rand.Text()
	fd, err := unix.Openat(dir, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), temp)
	most := d.most(owner)
	n, err := io.Copy(file, io.LimitReader(body, most+1))
	d.took(owner, n)
	switch {
	case n > d.size:
		err = fmt.Errorf("it is larger than %d bytes (DEBUGINFOD_MAXSIZE)", d.size)
	case n > most:
		err = fmt.Errorf("it is larger than the %d bytes that are left%s", most, forUser(owner))
	}
	if err = errors.Join(err, file.Close()); err == nil {
		var img *image
		if img, err = d.place(dir, temp, name, buildID); err == nil {
			return img, nil
		}
	}
	_ = unix.Unlinkat(dir, temp, 0)
	return nil, err
}

func (d *debuginfod) place(dir int, temp, name, buildID string) (*image, error) {
	fd, err := unix.Openat(dir, temp, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	img, err := debugImage(fd, path.Join(d.cache, buildID, name), hasBuildID(buildID))
	if err != nil {
		return nil, err
	}
	if img == nil {
		return nil, errors.New("what the server sent is not the debug file of that build ID")
	}
	if err := unix.Renameat(dir, temp, dir, name); err != nil {
		img.close()
		return nil, err
	}
	return img, nil
}
