package tui

// Theme is how parts of a screen are set off: SGR parameters (ECMA-48).
// Without colour only bold and reverse are left.
type Theme struct {
	Heading, Sorted, Selected, Tab, Strong, Dim, Warn, Bar string
}

// The two looks of all screens.
var (
	PlainTheme  = Theme{Heading: "1", Sorted: "1;4", Selected: "7", Tab: "7", Strong: "1", Warn: "1"}
	ColourTheme = Theme{Heading: "1;36", Sorted: "1;4;36", Selected: "7", Tab: "1;7;36", Strong: "1;33", Dim: "2", Warn: "1;33", Bar: "32"}
)

// Styled sets text off.
func Styled(s, sgr string) string {
	if sgr == "" || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[0m"
}
