package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

func init() {
	applets["kwok-stages"] = func() { // What kwok does with nodes and pods, as its own releases configure it.
		fmt.Println(strings.Join([]string{nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
			podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete}, "\n---\n"))
	}
	applets["kwok"] = func() {
		// The flags of the other parts are there, among them another --version.
		pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
		flagset := pflag.NewFlagSet("global", pflag.ContinueOnError)
		flagset.ParseErrorsAllowlist.UnknownFlags = true
		flagset.Usage = func() {}
		ctx := signals.SetupSignalContext()
		ctx, logger := log.InitFlags(ctx, flagset)
		ctx, err := config.InitFlags(ctx, flagset)
		if err != nil {
			logger.Error("Init config flags", "err", err)
			os.Exit(1)
		}
		command := cmd.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(flagset)
		if err = command.ExecuteContext(ctx); err != nil {
			logger.Error("Execute exit", "err", err)
			os.Exit(1)
		}
	}
}
