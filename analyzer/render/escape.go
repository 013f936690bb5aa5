package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Every format has one way to write what a target may have made up: clean for
// text (and what JUnit and SARIF show), encodeJSON, appendCSV, markdownText,
// escapeData and escapeProperty of annotations. All writers go through them.

// CleanLines is Clean for text of several lines, of which names are a part.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// ValidText keeps apart names that are not UTF-8 where only UTF-8 can be written:
// each byte that is none becomes \xff. encoding/json makes them all one character.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			out = append(out, '\\', 'x', hexDigits[s[i]>>4], hexDigits[s[i]&15])
		} else {
			out = append(out, s[i:i+n]...)
		}
		i += n
	}
	return string(out)
}

// EncodeJSON writes a document that a terminal obeys nothing of, in one line or
// with each level indented by indent, and a newline. Where html is true, it can
// stand in an element of a page, too.
func EncodeJSON(doc any, indent string, html bool) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(html) // C++ names are full of < and >
	enc.SetIndent("", indent)
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	return escapeUnprintable(out.Bytes()), nil
}

// EncodeCSV writes rows (RFC 4180) that neither a terminal nor a spreadsheet obeys
// anything of. Numbers stay numbers.
func EncodeCSV(rows [][]string) []byte {
	var out []byte
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendCSV(out, cell)
		}
		out = append(out, '\n')
	}
	return out
}

// maxCell is how much of a name a cell has: spreadsheets take no more.
const maxCell = 32 << 10

// appendCSV appends a cell. One that begins like a formula is marked as text, by
// an apostrophe (OWASP, CSV injection). So is what follows a semicolon, by which
// many locales separate cells, whatever quotes there are.
func appendCSV(out []byte, cell string) []byte {
	if len(cell) > maxCell {
		cell = cell[:maxCell] + "…"
	}
	parts := strings.Split(cell, ";")
	for i, part := range parts {
		parts[i] = clean(part)
		if isFormula(part) {
			parts[i] = "'" + parts[i]
		}
	}
	cell = strings.Join(parts, ";")
	if !strings.ContainsAny(cell, "\",;|'") && !strings.HasPrefix(cell, " ") {
		return append(out, cell...)
	}
	out = append(out, '"')
	out = append(out, strings.ReplaceAll(cell, `"`, `""`)...)
	return append(out, '"')
}

// formulaStarts begin formulas, the full-width ones of East Asia among them.
const formulaStarts = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"

func isFormula(cell string) bool {
	cell = strings.TrimLeft(cell, " ")
	first, _ := utf8.DecodeRuneInString(cell)
	return cell != "" && strings.ContainsRune(formulaStarts, first) && cell != "-" && !isNumber(cell)
}

// isNumber reports whether a cell is a figure, with a sign where it is negative.
func isNumber(cell string) bool {
	digits := strings.Replace(strings.TrimPrefix(cell, "-"), ".", "", 1)
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}
