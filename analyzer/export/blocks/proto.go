package blocks

import "encoding/binary"

// A message is a protocol buffer message that is being encoded: fields by number, in the wire format of
// https://protobuf.dev/programming-guides/encoding. Fields of zero are left out, as readers take a missing one for it.
type message []byte

const (
	wireVarint = 0
	wireBytes  = 2
)

func (m *message) number(field int, v uint64) {
	if v != 0 {
		m.always(field, v)
	}
}

// always encodes also 0, where its presence means something.
func (m *message) always(field int, v uint64) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|wireVarint)
	*m = binary.AppendUvarint(*m, v)
}

func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) text(field int, s string) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(s)))
	*m = append(*m, s...)
}

// interned encodes an InternedString.
func (m *message) interned(field int, iid uint64, s string) {
	var one message
	one.number(1, iid)
	one.text(2, s)
	m.bytes(field, one)
}
