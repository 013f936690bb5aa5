// Program plain allocates, and cannot ask for its memory profile: Go's linker switches that off.
package main

import (
	"bufio"
	"fmt"
	"os"
)

var kept [][]byte

func main() {
	for i := 0; i < 1000; i++ {
		kept = append(kept, make([]byte, 10000))
	}
	fmt.Println("ready", os.Getpid())
	bufio.NewScanner(os.Stdin).Scan()
}
