package render

import (
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"strings"

	"github.com/memtrace/memtrace/analyzer/matrix"
)

// The parts of the page. Names reach it in the JSON alone, and the script puts
// them into the page as text.
var (
	//go:embed html/matrix.html
	matrixPageHTML string
	//go:embed html/matrix.css
	matrixCSS string
	//go:embed html/matrix.js
	matrixJS string
)

// matrixHTML writes a page that needs nothing else: its policy allows its own
// script and style, by their hashes, and no request to anywhere.
func matrixHTML(t *matrix.Table, opt MatrixOptions) ([]byte, error) {
	// <, > and & are written as escapes, so that nothing in a string can end the
	// element that the data stands in.
	data, err := EncodeJSON(newMatrixDocument(t, opt), "", true)
	if err != nil {
		return nil, err
	}
	page := strings.NewReplacer(
		"{{script}}", policyHash(matrixJS), "{{style}}", policyHash(matrixCSS),
		"{{css}}", matrixCSS, "{{js}}", matrixJS, "{{data}}", string(data),
	).Replace(matrixPageHTML)
	return []byte(page), nil
}

// policyHash names an inline script or style in a Content-Security-Policy.
func policyHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
