package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func init() { applets["etcd"] = func() { etcdmain.Main(os.Args) } }
