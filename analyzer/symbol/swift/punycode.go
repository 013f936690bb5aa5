package swift

import "strings"

// decodePunycode reads RFC 3492 with Swift's letters: '_' ends the plain part,
// digits are a to z and A to J. Plain characters that no name may have are
// moved to 0xd800 and up.
func decodePunycode(text string, left *budget) string {
	var out []rune
	if i := strings.LastIndexByte(text, '_'); i > 0 {
		out, text = []rune(text[:i]), text[i+1:]
	} else if i == 0 {
		text = text[1:]
	}
	code, at, bias := 128, 0, 72
	for len(text) > 0 {
		old, weight := at, 1
		for k := 36; ; k += 36 {
			if len(text) == 0 {
				fail()
			}
			digit := punycodeDigit(text[0])
			text = text[1:]
			if at += digit * weight; at > 1<<24 {
				fail()
			}
			least := min(max(k-bias, 1), 26)
			if digit < least {
				break
			}
			if weight *= 36 - least; weight > 1<<24 {
				fail()
			}
		}
		n := len(out) + 1
		bias = adaptBias(at-old, n, old == 0)
		code, at = code+at/n, at%n
		if code > 0x10ffff {
			fail()
		}
		r := rune(code)
		if r >= 0xd800 && r < 0xd880 {
			r -= 0xd800
		}
		left.write(8 * n)
		out = append(out[:at], append([]rune{r}, out[at:]...)...)
		at++
	}
	return string(out)
}

func punycodeDigit(c byte) int {
	switch {
	case isLower(c):
		return int(c - 'a')
	case c >= 'A' && c <= 'J':
		return int(c-'A') + 26
	}
	fail()
	return 0
}

func adaptBias(delta, n int, first bool) int {
	if first {
		delta /= 700
	} else {
		delta /= 2
	}
	delta += delta / n
	k := 0
	for ; delta > 455; k += 36 {
		delta /= 35
	}
	return k + 36*delta/(delta+38)
}
