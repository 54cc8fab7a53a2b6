// An NRI plugin that pins a container to the CPUs named by an annotation of its pod.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type cpuPin struct{ prefix string }

func (p cpuPin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	cpus := pod.GetAnnotations()[p.prefix+"/"+container.GetName()]
	if cpus == "" {
		return nil, nil, nil
	}
	adjustment := &api.ContainerAdjustment{}
	adjustment.SetLinuxCPUSetCPUs(cpus)
	return adjustment, nil, nil
}

func init() {
	applets["nri-cpuset"] = func() {
		flags := flag.NewFlagSet("nri-cpuset", flag.ExitOnError)
		socket := flags.String("socket", "/var/run/nri/nri.sock", "containerd's socket")
		prefix := flags.String("annotation", "cpuset.bai.dev", "what stands before /<container>")
		flags.Parse(os.Args[1:])
		for { // A runtime that restarts ends the connection.
			plugin, err := stub.New(cpuPin{*prefix}, stub.WithPluginName("cpuset"), stub.WithPluginIdx("10"),
				stub.WithSocketPath(*socket))
			if err == nil {
				err = plugin.Run(context.Background())
			}
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}
