package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"
)

// Identify gives each leak of a Report its fingerprint. It reads the stacks of
// the sites, which should be named.
func (r *Report) Identify() {
	sites := r.SiteIndex()
	for i := range r.Leaks {
		r.Leaks[i].Fingerprint = fingerprint(r.Leaks[i].Kind, sites[r.Leaks[i].Site])
	}
}

// SiteIndex returns all sites of a Report by ID. They are the Report's own.
func (r *Report) SiteIndex() map[int]*Site {
	sites := make(map[int]*Site, len(r.Sites))
	for i := range r.Sites {
		sites[r.Sites[i].ID] = &r.Sites[i]
	}
	return sites
}

// Site returns the site with an ID, nil where the Report does not list it.
func (r *Report) Site(id int) *Site {
	for i := range r.Sites {
		if r.Sites[i].ID == id {
			return &r.Sites[i]
		}
	}
	return nil
}

// fingerprint names a leak by its site. A verdict's kind is not in it, as one pointer
// that happens to be left somewhere turns a definite leak into a possible one.
func fingerprint(kind string, s *Site) string {
	if IsVerdict(kind) {
		kind = "leak"
	}
	h := sha256.New()
	fmt.Fprintf(h, "memtrace leak 1\n%s\n", kind)
	if s != nil {
		s.identify(h)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Fingerprint names the site from one run, process and build to the next, by 32
// hexadecimal digits. It reads the stack, which should be named. Sites of one
// Report may have the same: those of several processes, or that differ in lines alone.
func (s *Site) Fingerprint() string {
	h := sha256.New()
	fmt.Fprintln(h, "memtrace site 1")
	s.identify(h)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// identify writes what of a site stays the same when lines shift, addresses
// are randomised, processes get other IDs or the C library is another: the
// names of the functions from the one that allocates to main or the thread's
// first, recursion taken as one call. A function without a name is taken by
// its place in its file.
func (s *Site) identify(h io.Writer) {
	if len(s.Stack) == 0 {
		fmt.Fprintln(h, s.Function)
	}
	if g := s.Group; g != nil {
		fmt.Fprintln(h, g.Class, g.Type, g.Size)
	}
	last := ""
	for _, f := range s.Stack {
		name := f.stableName()
		if name == last || IsAllocator(f.Function) || f.InLibc() {
			continue
		}
		fmt.Fprintln(h, name)
		if last = name; name == "main" {
			break
		}
	}
}

// Frames are the site's stack; of a group of blocks without one, its type and
// that type's file stand for it.
func (s *Site) Frames() []*Frame {
	if s.Group != nil {
		return []*Frame{{Function: s.Group.Type, Module: s.Group.Module}}
	}
	return s.Stack
}

func (f *Frame) stableName() string {
	if !f.Nameless() {
		return f.Function
	}
	return fmt.Sprintf("%s+%#x", path.Base(f.Module), f.Offset)
}

// Nameless reports whether nothing is known of the frame but an address.
func (f *Frame) Nameless() bool { return f.Function == "" || strings.HasPrefix(f.Function, "0x") }

// InLibc reports whether the code is the C library's or the loader's: what
// starts programs and threads differs from one version to the next.
func (f *Frame) InLibc() bool {
	base := path.Base(f.Module)
	for _, prefix := range []string{"libc.so", "libc-2", "libpthread", "ld-linux", "ld-musl", "libc.musl"} {
		if strings.HasPrefix(base, prefix) {
			return true
		}
	}
	return f.Function == "_start" || f.Function == "__libc_start_main" || f.Function == "__libc_start_call_main" || f.Function == "__libc_start_main_impl"
}
