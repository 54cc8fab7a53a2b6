// A stand-in for NVIDIA's DRA driver, for machines without a GPU. It publishes devices that do not exist, under
// the name and with the attributes of the real driver, and hands a container what it can read back from inside:
// NVIDIA_VISIBLE_DEVICES and a device node for each GPU. Behind each node is /dev/null.
package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

func gpuEdits(folder string, device resourceapi.Device) (map[string]any, error) {
	name := "nvidia" + strings.TrimPrefix(device.Name, "gpu-")
	host := filepath.Join(folder, name)
	err := unix.Mknod(host, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	node := map[string]any{"path": "/dev/" + name, "hostPath": host, "type": "c", "major": 1, "minor": 3}
	return map[string]any{"deviceNodes": []any{node}}, os.Chmod(host, 0o666)
}

func gpuVariable(_ types.UID, devices []resourceapi.Device) string {
	var uuids []string
	for _, device := range devices {
		uuids = append(uuids, *device.Attributes["uuid"].StringValue)
	}
	return "NVIDIA_VISIBLE_DEVICES=" + strings.Join(uuids, ",")
}

func serveGpus() error {
	driver := &standin{name: "gpu.nvidia.com", kind: "bai.dev/gpu", variable: gpuVariable,
		changed: func() error { return nil }}
	flags, options := standinFlags(driver)
	nodes := flags.String("dev", "", "folder for device nodes")
	flags.Parse(os.Args[1:])
	driver.edit = func(device resourceapi.Device) (map[string]any, error) { return gpuEdits(*nodes, device) }
	devices, err := driver.load(options)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*nodes, 0o750); err != nil {
		return err
	}
	return driver.serve(options, devices)
}

func init() { applets["gpu-standin"] = run(serveGpus) }
