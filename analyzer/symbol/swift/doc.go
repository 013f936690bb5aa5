// Package swift makes Swift's mangled names readable, as swift-demangle does:
// those of Swift 4.2 and later, which begin with $s, $S or $e, with or without
// an underscore before it. docs/ABI/Mangling.rst in Swift's sources has the grammar.
//
// A mangled name is a program for a stack machine in postfix order: operands
// (identifiers, types) are pushed, operators pop theirs and push what they make.
// What this package does not know (data about protocols, derivatives, macros) is
// an error, and the name stays as it is. Work and results are bounded, whatever
// the name says.
package swift
