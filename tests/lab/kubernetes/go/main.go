// One program with the parts of a Kubernetes cluster; the name it is called by, or its first word, chooses one.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

var applets = map[string]func(){}

func main() {
	name := filepath.Base(os.Args[0])
	run, ok := applets[name]
	if !ok && len(os.Args) > 1 {
		name = os.Args[1]
		if run, ok = applets[name]; ok {
			os.Args = append([]string{name}, os.Args[2:]...)
		}
	}
	if !ok {
		var names []string
		for each := range applets {
			names = append(names, each)
		}
		sort.Strings(names)
		fmt.Fprintln(os.Stderr, "one of", names)
		os.Exit(2)
	}
	run()
}
