// Package cmdline describes a program's command line once, and writes it as
// help for a terminal, as manual pages, as a reference in Markdown and as
// answers to a shell that completes a word.
//
//   - Program, Command and Option are the description; Describe makes it from
//     the flags that the program parses and from what a Detail adds to each
//   - Help, Man and Markdown write it
//   - Complete answers a shell; Script is what the shell runs
//   - Nearest finds what was meant by a misspelt word
package cmdline
