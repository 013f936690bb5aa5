// Program program allocates at sites that are known, and gives its own heap profile. It answers each line on stdin with one
// on stdout; after "profile N" come N bytes of the profile.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
)

var kept struct {
	sync.Mutex
	bytes [][]byte
	lists []any
}

func keep(b []byte) {
	kept.Lock()
	kept.bytes = append(kept.bytes, b)
	kept.Unlock()
}

// inlined is inlined into its callers.
func inlined(n int) []byte { return make([]byte, n) }

//go:noinline
func deep(n int) {
	if n > 0 {
		deep(n - 1)
		return
	}
	keep(inlined(3000))
}

type pair[T any] struct {
	first, second T
	next          *pair[T]
}

//go:noinline
func chain[T any](n int) *pair[T] {
	var head *pair[T]
	for i := 0; i < n; i++ {
		head = &pair[T]{next: head}
	}
	return head
}

//go:noinline
func grow(n int) {
	for i := 0; i < n; i++ {
		keep(make([]byte, 512<<10))
	}
}

//go:noinline
func work(id int) {
	for i := 0; i < 500; i++ {
		keep(inlined(1000 + id))
	}
}

func begin() {
	for i := 0; i < 2000; i++ {
		deep(10)
	}
	kept.lists = append(kept.lists, chain[int64](20000), chain[string](20000))
	var all sync.WaitGroup
	for id := 0; id < 8; id++ {
		all.Add(1)
		go func(id int) { defer all.Done(); work(id) }(id)
	}
	all.Wait()
	for i := 0; i < 1000; i++ {
		_ = append([]byte(nil), make([]byte, 5000+len(os.Args))...) // garbage
	}
}

func main() {
	if os.Getenv("RATE") == "1" {
		runtime.MemProfileRate = 1
	}
	begin()
	fmt.Println("ready", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "gc":
			runtime.GC()
			fmt.Println("done")
		case "grow":
			grow(200)
			runtime.GC()
			fmt.Println("done")
		case "profile":
			var out bytes.Buffer
			_ = pprof.Lookup("heap").WriteTo(&out, 0)
			fmt.Println("profile", out.Len())
			os.Stdout.Write(out.Bytes())
		}
	}
}
