// Package tui shows a Report on a terminal and repaints it in place.
//
// It owns the terminal from Start to Stop: the alternate screen, a hidden
// cursor, nothing else, so that input keeps working as in any command. A
// terminal that is slow or stopped delays nobody: frames that it cannot take
// are left out and counted.
package tui
