package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func init() {
	applets["kubelet"] = func() { os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background()))) }
}
