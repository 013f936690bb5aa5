package threshold

import (
	"fmt"
	"strings"
)

// Op is how a Condition compares.
type Op uint8

const (
	Above   Op = iota // >
	AtLeast           // >=
	Below             // <
	AtMost            // <=
)

var ops = [...]string{Above: ">", AtLeast: ">=", Below: "<", AtMost: "<="}

// String returns the operator as it is written.
func (o Op) String() string { return ops[o] }

// Falling reports whether the condition is met below its value.
func (o Op) Falling() bool { return o == Below || o == AtMost }

// Condition is one comparison, such as "pss(redis)>2GiB".
type Condition struct {
	Metric  string // "pss": words of lower-case letters, digits, - and _, joined by dots
	Subject string // "redis": what stands in the parentheses; empty without
	Op      Op
	Value   Quantity
	text    string
}

// String returns the condition as it was written, without blanks at its ends.
func (c Condition) String() string { return c.text }

// Compare reports whether the condition is met by a figure; limit is its
// Value in the figure's unit.
func (c Condition) Compare(figure, limit float64) bool {
	switch c.Op {
	case Above:
		return figure > limit
	case AtLeast:
		return figure >= limit
	case Below:
		return figure < limit
	}
	return figure <= limit
}

// Parse parses one condition.
func Parse(text string) (Condition, error) {
	c := Condition{text: strings.TrimSpace(text)}
	if err := c.parse(); err != nil {
		return Condition{}, fmt.Errorf("condition %.80q: %w", text, err)
	}
	return c, nil
}

func (c *Condition) parse() error {
	if len(c.text) > maxText {
		return fmt.Errorf("it is too long")
	}
	left, right, op, err := splitAtOp(c.text)
	if err != nil {
		return err
	}
	c.Op = op
	if c.Metric, c.Subject, err = parseMetric(left); err != nil {
		return err
	}
	c.Value, err = ParseQuantity(right)
	return err
}

// splitAtOp splits at the first operator that stands outside parentheses: the
// name of a process may hold any character.
func splitAtOp(text string) (left, right string, op Op, err error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '>', '<':
			if depth > 0 {
				continue
			}
			return text[:i], strings.TrimPrefix(text[i+1:], "="), opAt(text[i:]), nil
		}
	}
	if depth > 0 {
		return "", "", 0, fmt.Errorf("a parenthesis is not closed")
	}
	return "", "", 0, fmt.Errorf("it compares nothing: write METRIC>VALUE or METRIC<VALUE")
}

func opAt(text string) Op {
	op := Above
	if text[0] == '<' {
		op = Below
	}
	if strings.HasPrefix(text[1:], "=") {
		op++
	}
	return op
}

// parseMetric parses "psi.some.avg10" or "pss(redis)".
func parseMetric(text string) (metric, subject string, err error) {
	text = strings.TrimSpace(text)
	metric = text
	if open := strings.IndexByte(text, '('); open >= 0 {
		if !strings.HasSuffix(text, ")") {
			return "", "", fmt.Errorf("nothing may follow the closing parenthesis but a comparison")
		}
		metric, subject = strings.TrimSpace(text[:open]), strings.TrimSpace(text[open+1:len(text)-1])
		if subject == "" {
			return "", "", fmt.Errorf("the parentheses are empty")
		}
	}
	for word := range strings.SplitSeq(metric, ".") {
		if !isWord(word) {
			return "", "", fmt.Errorf("%q is not the name of a figure", metric)
		}
	}
	return metric, subject, nil
}

func isWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// ParseList parses conditions that are separated by commas; a comma in
// parentheses belongs to the subject.
func ParseList(text string) ([]Condition, error) {
	var out []Condition
	depth, from := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text), text[i] == ',' && depth == 0:
			c, err := Parse(text[from:i])
			if err != nil {
				return nil, err
			}
			out, from = append(out, c), i+1
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth = max(depth-1, 0)
		}
	}
	return out, nil
}
