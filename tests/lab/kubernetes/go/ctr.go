package main

import (
	"fmt"
	"os"

	"github.com/containerd/containerd/v2/cmd/ctr/app"
)

func init() {
	applets["ctr"] = func() {
		if err := app.New().Run(os.Args); err != nil {
			fmt.Fprintf(os.Stderr, "ctr: %s\n", err)
			os.Exit(1)
		}
	}
}
