package probe

import (
	"errors"
	"fmt"
	"strings"
)

// markPrefix begins the description of a USDT probe where that of a function
// has its symbol.
const markPrefix = "usdt:"

func isMark(text string) bool {
	if _, symbol, ok := strings.Cut(text, "!"); ok {
		text = symbol
	}
	return strings.HasPrefix(text, markPrefix)
}

func (f *UserFunction) parseMark(name string) error {
	provider, probe, ok := strings.Cut(name, ":")
	if !ok || provider == "" || probe == "" || strings.Contains(probe, ":") {
		return errors.New("a USDT probe is called usdt:PROVIDER:NAME")
	}
	f.Mark = name
	return nil
}

func parseAllocMark(text string) (UserFunction, error) {
	f, given, err := parseUser(text, "block", "size", "weight")
	if err != nil {
		return f, err
	}
	block, hasBlock := given["block"]
	size, hasSize := given["size"]
	weight := given["weight"]
	if !hasBlock || !hasSize || len(size) > 1 {
		return f, fmt.Errorf("%q does not say which arguments are the block and its size: usdt:my_pool:alloc:block=0,size=1", text)
	}
	f.set(MarkAlloc, append([]uint8{block[0], size[0]}, weight...)...)
	return f, nil
}

func parseFreeMark(text string) (UserFunction, error) {
	f, given, err := parseUser(text, "ptr")
	if err != nil {
		return f, err
	}
	f.set(MarkFree, given["ptr"]...)
	return f, nil
}
