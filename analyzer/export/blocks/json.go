package blocks

import (
	"bufio"
	"encoding/json"
	"strconv"
)

// A jsonWriter streams a JSON document. Its errors are those of out, which keeps them until it is flushed.
type jsonWriter struct {
	out   *bufio.Writer
	comma bool // one is due before the next value
	buf   []byte
}

func (j *jsonWriter) begin(bracket byte) {
	j.separate()
	j.out.WriteByte(bracket)
	j.comma = false
}

func (j *jsonWriter) end(bracket byte) {
	j.out.WriteByte(bracket)
	j.comma = true
}

func (j *jsonWriter) separate() {
	if j.comma {
		j.out.WriteByte(',')
	}
	j.comma = true
}

// key begins a member of an object. It is a plain word.
func (j *jsonWriter) key(name string) {
	j.separate()
	j.out.WriteByte('"')
	j.out.WriteString(name)
	j.out.WriteString(`":`)
	j.comma = false
}

// value writes anything that can always be encoded.
func (j *jsonWriter) value(v any) {
	j.separate()
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a type that has no JSON
	}
	j.out.Write(text)
}

func (j *jsonWriter) member(name string, v any) {
	j.key(name)
	j.value(v)
}

// number writes an integer.
func (j *jsonWriter) number(v int64) {
	j.separate()
	j.buf = strconv.AppendInt(j.buf[:0], v, 10)
	j.out.Write(j.buf)
}

// null stands for nothing.
func (j *jsonWriter) null() {
	j.separate()
	j.out.WriteString("null")
}

// milliseconds writes ns as ms, exactly.
func (j *jsonWriter) milliseconds(ns uint64) {
	j.separate()
	j.buf = strconv.AppendUint(j.buf[:0], ns/1e6, 10)
	if rest := ns % 1e6; rest != 0 {
		j.buf = append(j.buf, '.')
		for unit := uint64(1e5); rest != 0; unit /= 10 {
			j.buf = append(j.buf, '0'+byte(rest/unit))
			rest %= unit
		}
	}
	j.out.Write(j.buf)
}

// column writes an array of integers; below 0 is null where that may be.
func (j *jsonWriter) column(name string, n int, nullable bool, of func(i int) int64) {
	j.key(name)
	j.begin('[')
	for i := range n {
		if v := of(i); v < 0 && nullable {
			j.null()
		} else {
			j.number(v)
		}
	}
	j.end(']')
}

// same writes an array of one value again and again.
func (j *jsonWriter) same(name string, n int, value string) {
	j.key(name)
	j.begin('[')
	for range n {
		j.separate()
		j.out.WriteString(value)
	}
	j.end(']')
}
