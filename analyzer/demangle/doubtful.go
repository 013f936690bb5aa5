package demangle

import "strings"

// What the library makes of a name in a moment, whatever it is: at most so many bytes, substitutions and template
// parameters, expansions of packs, and casts. A search for the dearest of such names, by changing them at random
// for minutes, found ones of half a millisecond of processor time. Of the names of LLVM and Clang one in twenty has
// more, of those of libstdc++ none.
const (
	plainLength     = 192
	plainReferences = 12
	plainExpansions = 1
	plainCasts      = 2
)

// What costs some hundredths of that: names that a user's files may have as many of as they like.
const (
	cheapLength     = 64
	cheapReferences = 4
)

// doubtful tells names that may cost more than a moment.
func doubtful(name string) bool { return beyond(name, plainLength, plainReferences) }

// cheap tells names that cost next to nothing.
func cheap(name string) bool { return !beyond(name, cheapLength, cheapReferences) }

func beyond(name string, length, most int) bool {
	if len(name) > length {
		return true
	}
	references := 0
	for i := 1; i < len(name); i++ {
		if isReference(name[i-1], name[i]) {
			references++
		}
	}
	expansions := strings.Count(name, "Dp")
	for _, kind := range []string{"sp", "sP", "sZ"} {
		expansions += strings.Count(name, kind)
	}
	return references > most || expansions > plainExpansions || strings.Count(name, "cv") > plainCasts
}

// isReference tells whether two bytes may begin a C++ substitution (S_, S0_), a template parameter (T_, T0_), or one of
// Rust's back references (B_, Bx_).
func isReference(first, second byte) bool {
	switch first {
	case 'S', 'T':
		return second == '_' || '0' <= second && second <= '9' || 'A' <= second && second <= 'Z'
	case 'B':
		return second == '_' || '0' <= second && second <= '9' || 'A' <= second&^' ' && second&^' ' <= 'Z'
	}
	return false
}
