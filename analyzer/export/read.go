package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// What is wrong with a file that is to be a Report.
var (
	ErrNotReport = errors.New("not a memtrace JSON report")
	ErrEmpty     = errors.New("the file is empty")
	ErrNewer     = errors.New("the report is of another version")
	ErrTooLarge  = errors.New("the report takes too much memory")
)

const (
	// maxInput bounds how much is read of a file, in bytes: a trace's output may have a
	// Report for each second of a day.
	maxInput = 4 << 30
	// maxFrames bounds the frames of one stack: far more than a trace takes, inlined ones included.
	maxFrames = 16 << 10
)

// Read reads a Report as memtrace writes it in JSON. Of several, one a line as a
// trace prints them, the last counts. It takes at most limit bytes of memory for
// one; beyond that it returns ErrTooLarge. note says what was wrong with the file
// if a Report could be had all the same.
func Read(r io.Reader, limit uint64) (out *report.Report, note string, err error) {
	last, note, err := lastDocument(r, limit)
	if err != nil {
		return nil, "", err
	}
	if err := checkSchema(last); err != nil {
		return nil, "", err
	}
	if need := footprint(last); need > limit {
		return nil, "", fmt.Errorf("%w: %s, and the limit is %s", ErrTooLarge, size(need), size(limit))
	}
	out = new(report.Report)
	if err := json.Unmarshal(last, out); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNotReport, err)
	}
	if err := check(out); err != nil {
		return nil, "", err
	}
	return out, note, nil
}

// lastDocument returns the last whole document of a file.
func lastDocument(r io.Reader, limit uint64) (last []byte, note string, err error) {
	in := &bounded{r: r, most: maxInput, room: signed(limit / 4)} // it is held up to four times while it is read
	docs := json.NewDecoder(in)
	for {
		var doc json.RawMessage
		in.taken = 0
		switch err := docs.Decode(&doc); {
		case err == nil:
			last = doc
			continue
		case errors.Is(err, errRoom):
			return nil, "", fmt.Errorf("%w: one report of more than %s", ErrTooLarge, size(limit/4))
		case errors.Is(err, errInput):
			return nil, "", fmt.Errorf("%w: the file has more than %s", ErrTooLarge, size(maxInput))
		case errors.Is(err, io.EOF) && last == nil:
			return nil, "", ErrEmpty
		case errors.Is(err, io.EOF):
			return last, "", nil
		case errors.Is(err, io.ErrUnexpectedEOF) && last != nil:
			return last, "the file ends in the middle of a report: this is the one before", nil
		case isSyntax(err):
			return nil, "", fmt.Errorf("%w: %w", ErrNotReport, err)
		default:
			return nil, "", err
		}
	}
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF)
}

var (
	errRoom  = errors.New("no room for a document")
	errInput = errors.New("too much input")
)

// bounded ends a document that is too long for its room, and a file without an end.
type bounded struct {
	r     io.Reader
	most  int64 // of the file
	room  int64 // of a document
	taken int64 // of this document
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.taken > b.room {
		return 0, errRoom
	}
	if b.most <= 0 {
		return 0, errInput
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.most)])
	b.most -= int64(n)
	b.taken += int64(n)
	return n, err
}

// checkSchema tells another program's JSON, and another memtrace's, before the
// document is decoded.
func checkSchema(doc []byte) error {
	var head struct {
		Schema string `json:"schema"`
	}
	if doc[0] != '{' || json.Unmarshal(doc, &head) != nil {
		return ErrNotReport
	}
	family, _, _ := strings.Cut(report.Schema, "/")
	switch {
	case head.Schema == report.Schema:
		return nil
	case strings.HasPrefix(head.Schema, family+"/"):
		return fmt.Errorf("%w: %s, and this memtrace reads %s", ErrNewer, clip(shorten(head.Schema, 60)), report.Schema)
	case head.Schema != "":
		return fmt.Errorf("%w: its schema is %s", ErrNotReport, clip(shorten(head.Schema, 60)))
	}
	return ErrNotReport
}

// A nesting is what elements of a Report's JSON take, bytes, by how deep they are nested: {"sites":[{"stack":[{…}]}]}
// has sites at depth 2 and frames at depth 4, the depths of their arrays.
type nesting struct {
	elements []uint64 // of the arrays that are so deep
	pointees []uint64 // of the objects at which something so deep points
}

// unknownBytes is for what is nested deeper than any of it.
const unknownBytes = 32

var reportNesting = nestingOf(reflect.TypeFor[report.Report]())

// nestingOf takes the largest of each depth.
func nestingOf(t reflect.Type) *nesting {
	n := &nesting{}
	n.add(t, 0)
	return n
}

func (n *nesting) add(t reflect.Type, depth int) {
	switch t.Kind() {
	case reflect.Pointer:
		n.pointees = atLeast(n.pointees, depth, t.Elem())
		n.add(t.Elem(), depth)
	case reflect.Slice, reflect.Array, reflect.Map:
		n.elements = atLeast(n.elements, depth+1, t.Elem())
		n.add(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous {
				n.add(f.Type, depth)
			} else {
				n.add(f.Type, depth+1)
			}
		}
	}
}

func atLeast(sizes []uint64, depth int, t reflect.Type) []uint64 {
	for len(sizes) <= depth {
		sizes = append(sizes, 0)
	}
	sizes[depth] = max(sizes[depth], uint64(t.Size()))
	return sizes
}

func sizeAt(sizes []uint64, depth int) uint64 {
	if depth < len(sizes) {
		return sizes[depth]
	}
	return unknownBytes
}

// footprint is how much memory a document takes at most once it is decoded: a few
// bytes of JSON may become an element of half a kilobyte. Slices grow by doubling, and
// leave their old halves to the garbage collector.
func footprint(doc []byte) uint64 {
	const growth = 3
	sum := uint64(len(doc))
	var arrays []bool // whether each of the containers that one is in is an array
	quoted := false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if c == '{' {
				sum += sizeAt(reportNesting.pointees, len(arrays))
			}
			arrays = append(arrays, c == '[')
			if c == '[' {
				sum += sizeAt(reportNesting.elements, len(arrays))
			}
		case (c == '}' || c == ']') && len(arrays) > 0:
			arrays = arrays[:len(arrays)-1]
		case c == ',' && len(arrays) > 0 && arrays[len(arrays)-1]:
			sum += growth * sizeAt(reportNesting.elements, len(arrays))
		}
	}
	return sum
}

// maxLookups bounds the leaks times the sites: writers look for each leak's site.
const maxLookups = 1 << 30

// check refuses what no writer writes and every reader would have to look out for.
func check(r *report.Report) error {
	if leaks, sites := len(r.Leaks), len(r.Sites); uint64(leaks)*uint64(sites) > maxLookups {
		return fmt.Errorf("%w: %d leaks of %d sites", ErrTooLarge, leaks, sites)
	}
	for i := range r.Sites {
		if err := checkStack(r.Sites[i].Stack); err != nil {
			return err
		}
	}
	for i := range r.Regions {
		if err := checkStack(r.Regions[i].Stack); err != nil {
			return err
		}
	}
	if r.Touched != nil {
		for i := range r.Touched.Sites {
			if err := checkStack(r.Touched.Sites[i].Stack); err != nil {
				return err
			}
		}
	}
	if r.Outcome == nil {
		return nil
	}
	for _, rule := range r.Outcome.Rules {
		for _, leak := range rule.Leaks {
			if leak < 0 || leak >= len(r.Leaks) {
				return fmt.Errorf("%w: a condition names leak %d of %d", ErrNotReport, leak, len(r.Leaks))
			}
		}
	}
	return nil
}

func checkStack(stack []*report.Frame) error {
	if len(stack) > maxFrames {
		return fmt.Errorf("%w: a stack of %d frames", ErrNotReport, len(stack))
	}
	for _, f := range stack {
		if f == nil {
			return fmt.Errorf("%w: a frame of a stack is null", ErrNotReport)
		}
	}
	return nil
}
