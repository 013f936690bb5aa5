// Package ptraced gives threads back what a stop by ptrace takes from them.
package ptraced
