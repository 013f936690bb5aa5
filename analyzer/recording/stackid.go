package recording

import "github.com/memtrace/memtrace/tracer/event"

// A stack's ID is mostly no more than a hash of its frames and of the process's program (bpf/headers/stack.h): the
// same origin for all of its stacks. Any other ID has an origin, too, which is of no other stack then. So the file
// has origins, and nearly no IDs.

// idFactor is by what the hash of the frames further in is multiplied for each frame.
const idFactor = 0x9fb21c651e98df25

// frameHash is what one frame gives to the sum.
func frameHash(pc uint64) uint64 {
	const factor = 0xd6e8feb86659fd93
	pc *= factor
	pc ^= pc >> 32
	pc *= factor
	return pc ^ pc>>32
}

// idPowers has idFactor to the power of how many frames are further out.
var idPowers = func() (p [maxDepth]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * idFactor
	}
	return p
}()

// frameSum is the sum of a frame and those further out, of which there are so many, with the sum of these.
func frameSum(outer uint64, depth int, pc uint64) uint64 {
	return outer + frameHash(pc)*idPowers[depth]
}

// idOf is the ID of a stack.
func idOf(origin, sum uint64) event.StackID {
	h := origin ^ sum
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return event.StackID(h ^ h>>31)
}

// originOf is the origin by which a stack has its ID.
func originOf(id event.StackID, sum uint64) uint64 {
	h := uint64(id)
	h ^= h>>31 ^ h>>62
	h *= 0x319642b2d24d8ec3 // the inverse of the second factor
	h ^= h>>27 ^ h>>54
	h *= 0x96de1b173f119089 // and of the first one
	h ^= h>>30 ^ h>>60
	return h ^ sum
}
