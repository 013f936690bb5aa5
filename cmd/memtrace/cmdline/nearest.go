package cmdline

// maxCompared bounds the words that are compared: nobody misspells longer ones.
const maxCompared = 64

// Nearest returns the one of words that was most likely meant by a misspelt
// one: one that begins with it, or else the closest, of which at most a third
// of the letters may differ; "" where there is none.
func Nearest(typed string, words []string) string {
	if typed == "" || len(typed) > maxCompared {
		return ""
	}
	if len(typed) >= 3 {
		for _, word := range words {
			if len(word) > len(typed) && word[:len(typed)] == typed {
				return word
			}
		}
	}
	best, least := "", len(typed)/3+1
	for _, word := range words {
		if len(word) > maxCompared {
			continue
		}
		if d := distance(typed, word); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance is Damerau and Levenshtein's, of two short words: how many letters
// were left out, added, replaced or swapped with their neighbour.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
