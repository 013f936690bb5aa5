// A Go program without cgo: it has no allocator that can be probed.
//
//	bare              grow by 64 MiB of blocks at a line on stdin, and end at another one
//	bare sleep        sleep for an hour
//	bare exit CODE    exit with that code
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// atGrowth is what else is done then.
var atGrowth = func() {}

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 0:
		grow()
	case args[0] == "sleep":
		time.Sleep(time.Hour)
	case len(args) == 2 && args[0] == "exit":
		code, err := strconv.Atoi(args[1])
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func rss() (kib uint64) {
	text, _ := os.ReadFile("/proc/self/smaps_rollup")
	_, after, _ := strings.Cut(string(text), "\nRss:")
	fmt.Sscan(after, &kib)
	return kib
}

// grow says what its runtime has of the heap more, its resident memory by /proc/self/smaps_rollup, and how much that has
// grown: less than the heap where blocks come to lie in a huge page that is there already.
func grow() {
	in := bufio.NewReader(os.Stdin)
	rss()
	resident := rss()
	fmt.Println("ready")
	in.ReadString('\n')
	atGrowth()
	before := heap()
	blocks := make([][]byte, 1024)
	for i := range blocks {
		blocks[i] = make([]byte, 64<<10)
		for j := range blocks[i] {
			blocks[i][j] = byte(i)
		}
	}
	after := heap()
	now := rss()
	fmt.Printf("{\"final\":true,\"heap_growth\":%d,\"rss\":%d,\"rss_growth\":%d}\n", after-before, now<<10, (now-resident)<<10)
	in.ReadString('\n')
	os.Exit(int(blocks[0][0]))
}
