package probe

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A Finder discovers the allocators of many processes and looks into each
// file once, however many of them map it. Its methods may be called
// concurrently.
type Finder struct {
	root   string
	choice Choice

	mu    sync.Mutex
	known map[fileState]inspected
	seen  map[string]bool   // functions of the choice that some file has
	lacks map[string]string // why those that some file has are not probed
	found bool              // some file has the family of the choice
}

// Choice says what to look for beside, or instead of, all that memtrace knows.
// The zero Choice is all of that and no more.
type Choice struct {
	Functions []UserFunction
	Family    Family // "" any: allocators of another are left alone
}

// Layers names the layers that are chosen.
func (c Choice) Layers() (names []string) {
	for _, f := range c.Functions {
		if f.Layer != "" && !slices.Contains(names, f.Layer) {
			names = append(names, f.Layer)
		}
	}
	return names
}

// NewFinder returns a Finder that reads of processes below root, usually "/proc".
func NewFinder(root string, choice Choice) *Finder {
	return &Finder{root: root, choice: choice, known: make(map[fileState]inspected), seen: make(map[string]bool), lacks: make(map[string]string)}
}

// Unseen says which functions, layers and family of the choice no file has had so
// far, in words.
func (d *Finder) Unseen() (texts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.choice.Family != "" && !d.found {
		texts = append(texts, fmt.Sprintf("no file that the processes mapped has the allocator %s (memtrace doctor -p shows which they have)", d.choice.Family))
	}
	layers := map[string]bool{}
	for _, f := range d.choice.Functions {
		layers[f.Layer] = layers[f.Layer] || d.seen[f.name()]
	}
	for _, f := range d.choice.Functions {
		reason := d.lacks[f.name()]
		switch {
		case f.Mark != "" && reason != "": // in one file, though others may be fine
			texts = append(texts, fmt.Sprintf("the USDT probe %s is not traced: %s", f.name(), reason))
		case d.seen[f.name()] || layers[f.Layer] && f.Layer != "":
		case reason != "":
			texts = append(texts, fmt.Sprintf("%s is not traced: %s", f.name(), reason))
		case f.Layer != "":
			texts = append(texts, fmt.Sprintf("no file that the processes mapped has the functions of the layer %s", f.Layer))
		default:
			texts = append(texts, fmt.Sprintf("no file that the processes mapped has the function %q (memtrace doctor -p shows what a process maps)", f.Text))
		}
		layers[f.Layer] = true // one reason is enough
	}
	return texts
}

// alone says whether a layer is chosen beside which no allocator is traced.
func (c Choice) alone() bool {
	return slices.ContainsFunc(c.Functions, func(f UserFunction) bool { return layers[f.Layer].alone })
}

// marks says whether a USDT probe is asked for.
func (c Choice) marks(name string) bool {
	return slices.ContainsFunc(c.Functions, func(f UserFunction) bool { return f.Mark == name })
}

// restrict leaves out what is not of the family that was chosen. Mappings are
// nobody's.
func (c Choice) restrict(o *Object) {
	alone := c.alone()
	if c.Family == "" && !alone {
		return
	}
	o.Probes = slices.DeleteFunc(slices.Clone(o.Probes), func(p Probe) bool {
		return (p.Family != c.Family || alone) && p.Family != User && !p.Shape.maps()
	})
}

// maxKnown bounds the files that are remembered.
const maxKnown = 4096

// fileState is one state of a file: as long as it is the same, so is what the
// file holds.
type fileState struct {
	device, inode uint64
	size          int64
	modified      unix.Timespec
	changed       unix.Timespec
}

// inspected is what Inspect said.
type inspected struct {
	object Object
	err    error
}

// inspect is Inspect, of a file that may be known.
func (d *Finder) inspect(f *os.File, at locator) (Object, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return inspectAt(f, at, d.choice.Functions)
	}
	state := fileState{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
	d.mu.Lock()
	old, ok := d.known[state]
	d.mu.Unlock()
	if ok {
		return old.object, old.err
	}
	o, err := inspectAt(f, at, d.choice.Functions)
	d.choice.restrict(&o)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range o.Probes {
		if p.Family == User {
			d.seen[p.Name] = true
		}
		d.found = d.found || p.Family == d.choice.Family && !p.Shape.maps()
	}
	for _, s := range o.Skipped {
		d.lacks[s.Name] = s.Reason
	}
	if len(d.known) >= maxKnown {
		clear(d.known)
	}
	d.known[state] = inspected{o, err}
	return o, err
}
