// Package wrapper tells functions that hand out memory on behalf of their caller from
// those that want it: xmalloc, operator new, a container's insides. list.txt has those
// that are known by name, Patterns are those that a user names.
package wrapper
