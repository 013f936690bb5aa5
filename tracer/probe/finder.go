package probe

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"

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
	left  map[string]bool   // what was not read, and why
	seen  map[string]bool   // functions of the choice that some file has
	lacks map[string]string // why those that some file has are not probed
	more  bool              // not all of it fits into left
	found bool              // some file has the family of the choice
}

// Choice says what to look for beside, or instead of, all that memtrace knows.
// The zero Choice is all of that and no more.
type Choice struct {
	Functions []UserFunction
	Family    Family // "" any: allocators of another are left alone
	// ReplaceReturns has the return addresses of an allocator's own operator new replaced, as those of other functions
	// are: cheaper, and it need not be known where they return, but an exception that passes one ends the program.
	ReplaceReturns bool
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

// maxLeft bounds what Left says: names of files are the target's.
const maxLeft = 64

// leave notes that a file, or its debug file, was not read.
func (d *Finder) leave(path, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(path, text)
}

// note is leave; the caller holds the lock.
func (d *Finder) note(path, text string) {
	text = strings.Map(shown, path+": "+text)
	if len(d.left) >= maxLeft {
		d.more = d.more || !d.left[text]
		return
	}
	if d.left == nil {
		d.left = make(map[string]bool)
	}
	d.left[text] = true
}

// shown keeps a character that a terminal shows as one: names of files are the target's.
func shown(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Left says which files were not read for allocators and why, each once.
func (d *Finder) Left() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	texts := slices.Sorted(maps.Keys(d.left))
	if d.more {
		texts = append(texts, "more files were not read for allocators")
	}
	return texts
}

// alone says whether a layer is chosen beside which no allocator is traced.
func (c Choice) alone() bool {
	return slices.ContainsFunc(c.Functions, func(f UserFunction) bool { return layers[f.Layer].alone })
}

// names says whether a function is asked for.
func (c Choice) names(name string) bool {
	return slices.ContainsFunc(c.Functions, func(f UserFunction) bool { return f.name() == name })
}

// marks says whether a USDT probe is asked for.
func (c Choice) marks(name string) bool {
	return slices.ContainsFunc(c.Functions, func(f UserFunction) bool { return f.Mark == name })
}

// restrict leaves out what is not of the family that was chosen, and the user's functions that jump on to that: their
// returns are not seen then.
func (c Choice) restrict(o *Object) {
	alone := c.alone()
	if c.Family == "" && !alone {
		return
	}
	if o.Family != c.Family || alone {
		o.Unseen = slices.DeleteFunc(slices.Clone(o.Unseen), func(s Skip) bool { return !c.names(s.Name) })
	}
	probes := o.Probes
	o.Probes = nil
	for _, p := range probes {
		i := slices.IndexFunc(p.HandsTo, c.leavesAlone)
		switch {
		case c.leavesAlone(Handed{p.Name, p.Family, p.Shape}):
		case i < 0:
			o.Probes = append(o.Probes, p)
		case p.Shape == Release:
			p.OpenEnded = true
			o.Probes = append(o.Probes, p)
		default:
			o.leave(p.Name, fmt.Sprintf("it jumps on to %s, which is left alone, and returns by that one's return, "+
				"which isn't seen", p.HandsTo[i].Name))
		}
	}
}

// leavesAlone says whether the choice leaves out a function. Mappings are nobody's. Whose a function of another file
// is, is not known: where a family is chosen, it may well be of that one.
func (c Choice) leavesAlone(f Handed) bool {
	if f.Family == User || f.Shape.maps() {
		return false
	}
	return c.alone() || c.Family != "" && f.Family != c.Family && f.Family != ""
}

// maxKnown bounds the files that are remembered.
const maxKnown = 4096

// fileState is one state of a file: as long as it is the same, so is what the
// file holds, and its debug file, which is looked for by the path, too.
type fileState struct {
	path          string
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
		return inspectAt(f, at, d.choice)
	}
	state := fileState{at.path, st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
	d.mu.Lock()
	old, ok := d.known[state]
	d.mu.Unlock()
	if ok {
		return old.object, old.err
	}
	o, err := inspectAt(f, at, d.choice)
	d.choice.restrict(&o)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range o.Probes {
		if p.Family == User {
			d.seen[p.Name] = true
		}
		d.found = d.found || p.Family == d.choice.Family && !p.Shape.maps()
	}
	for _, text := range o.Left {
		d.note(at.path, text)
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
