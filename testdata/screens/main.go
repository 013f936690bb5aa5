// Command screens turns what tmux capture-pane -e prints into an SVG picture
// of a terminal, for the documentation.
//
//	tmux capture-pane -p -e | go run ./testdata/screens > screen.svg
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sizes of a character cell, in pixels, and the space around the screen.
const (
	cellWidth  = 7.8
	cellHeight = 16
	margin     = 10
)

// Colours of the page, and of the eight that SGR 30 to 37 name.
const (
	paper = "#16181d"
	ink   = "#d5d8de"
)

var palette = [8]string{"#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5d8de"}

// style is what SGR sequences have set.
type style struct {
	bold, dim, underline, reverse bool
	colour                        int // of palette; -1: none
}

// run is text of one style.
type run struct {
	style
	column, width int
	text          string
}

func main() {
	log.SetFlags(0)
	if err := draw(os.Stdin, os.Stdout); err != nil {
		log.Fatal("screens: ", err)
	}
}

// draw reads a screen and writes it as SVG.
func draw(in io.Reader, out io.Writer) error {
	var lines [][]run
	columns := 0
	at := style{colour: -1}
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		var runs []run
		runs, at = parse(scanner.Text(), at)
		lines = append(lines, runs)
		for _, r := range runs {
			columns = max(columns, r.column+r.width)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the screen: %w", err)
	}
	w := bufio.NewWriter(out)
	width, height := float64(columns)*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-family="ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace" font-size="13" fill="%s">`+"\n", width, height, ink)
	fmt.Fprintf(w, `<rect width="100%%" height="100%%" rx="6" fill="%s"/>`+"\n", paper)
	for i, runs := range lines {
		for _, r := range runs {
			r.draw(w, i)
		}
	}
	fmt.Fprintln(w, "</svg>")
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// parse splits a line into runs of one style.
func parse(line string, at style) ([]run, style) {
	var runs []run
	column := 0
	for len(line) > 0 {
		text, rest, found := strings.Cut(line, "\x1b[")
		if n := utf8.RuneCountInString(text); n > 0 {
			runs = append(runs, run{at, column, n, text})
			column += n
		}
		if !found {
			break
		}
		codes, after, _ := strings.Cut(rest, "m")
		at = at.apply(codes)
		line = after
	}
	return runs, at
}

// apply takes the codes of one SGR sequence.
func (s style) apply(codes string) style {
	for code := range strings.SplitSeq(codes, ";") {
		n, err := strconv.Atoi(code)
		switch {
		case err != nil || n == 0:
			s = style{colour: -1}
		case n == 1:
			s.bold = true
		case n == 2:
			s.dim = true
		case n == 4:
			s.underline = true
		case n == 7:
			s.reverse = true
		case n >= 30 && n <= 37:
			s.colour = n - 30
		case n == 39:
			s.colour = -1
		}
	}
	return s
}

// draw writes a run on line i: its ground where it is reversed, and its text.
func (r run) draw(w io.Writer, i int) {
	colour := ink
	if r.colour >= 0 {
		colour = palette[r.colour]
	}
	x, y := margin+float64(r.column)*cellWidth, margin+i*cellHeight
	if r.reverse {
		fmt.Fprintf(w, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x, y, float64(r.width)*cellWidth, cellHeight, colour)
		colour = paper
	}
	if strings.TrimSpace(r.text) == "" {
		return
	}
	var attributes strings.Builder
	if colour != ink {
		fmt.Fprintf(&attributes, ` fill="%s"`, colour)
	}
	if r.bold {
		attributes.WriteString(` font-weight="bold"`)
	}
	if r.dim {
		attributes.WriteString(` opacity=".65"`)
	}
	if r.underline {
		attributes.WriteString(` text-decoration="underline"`)
	}
	fmt.Fprintf(w, `<text x="%.1f" y="%d" textLength="%.1f" xml:space="preserve"%s>%s</text>`+"\n",
		x, y+cellHeight-4, float64(r.width)*cellWidth, attributes.String(), html.EscapeString(r.text))
}
