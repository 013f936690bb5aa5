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

// The memory of what a Report's JSON is decoded into, by how deep it is nested:
// {"sites":[{"stack":[{…}]}]} has sites at depth 3 and frames at depth 5.
var (
	entryBytes = largest(report.Site{}, report.Process{}, report.Region{}, report.Leak{})
	frameBytes = largest(report.Frame{}, report.Mapping{}, report.Pool{}, report.LeakSample{}, report.Span{}, report.OldLeak{}, report.RuleDone{})
	childBytes = largest(report.LeakCheck{}, report.HeapWalk{}, report.ProcessLoss{}, report.Estimate{}, report.BlockGroup{})
)

func largest(values ...any) (most uint64) {
	for _, v := range values {
		most = max(most, uint64(reflect.TypeOf(v).Size()))
	}
	return most
}

// footprint is how much memory a document takes at most once it is decoded: a few
// bytes of JSON may become an element of a kilobyte. Slices grow by doubling, and
// leave their old halves to the garbage collector.
func footprint(doc []byte) uint64 {
	const growth = 3
	sum := uint64(len(doc))
	depth, quoted := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			sum += element(depth-1, c == '{')
		case c == '}' || c == ']':
			depth--
		case c == ',':
			sum += growth * element(depth, false)
		}
	}
	return sum
}

// element is the size of what may be one of several at a depth: of an array's, as a
// comma says, or of an object that something has a pointer to.
func element(depth int, object bool) uint64 {
	switch {
	case depth == 2:
		return entryBytes
	case depth == 3 && object:
		return childBytes
	case depth == 4:
		return frameBytes
	case depth > 4:
		return 32
	}
	return 0
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
