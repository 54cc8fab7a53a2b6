package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func init() {
	applets["kube-apiserver"] = func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) }
	applets["kube-scheduler"] = func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) }
	applets["kube-controller-manager"] = func() { os.Exit(cli.Run(kcm.NewControllerManagerCommand())) }
}
