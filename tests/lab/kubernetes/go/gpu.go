// A stand-in for NVIDIA's DRA driver, for machines without a GPU. It publishes devices that do not exist, under
// the name and with the attributes of the real driver, and hands a container what it can read back from inside:
// NVIDIA_VISIBLE_DEVICES and a device node for each GPU. Behind each node is /dev/null.
//
// Of a claim's GpuConfig it accepts what the real driver does (api/nvidia.com/resource/v1beta1/sharing.go and
// validate.go of v0.5.0-dev), with its feature gates, and gives a container of MPS what the real one gives
// (GetCDIContainerEdits in cmd/gpu-kubelet-plugin/sharing.go): the variable of the pipe's folder, that folder, and
// /dev/shm. In place of a daemon, a file in the folder says how it would have been started.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

type mpsConfig struct {
	DefaultActiveThreadPercentage     *int                         `json:"defaultActiveThreadPercentage"`
	DefaultPinnedDeviceMemoryLimit    *resource.Quantity           `json:"defaultPinnedDeviceMemoryLimit"`
	DefaultPerDevicePinnedMemoryLimit map[string]resource.Quantity `json:"defaultPerDevicePinnedMemoryLimit"`
	MultiUser                         *bool                        `json:"multiUser"`
}

type gpuConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Sharing    *struct {
		Strategy          string          `json:"strategy"`
		TimeSlicingConfig json.RawMessage `json:"timeSlicingConfig"`
		MpsConfig         *mpsConfig      `json:"mpsConfig"`
	} `json:"sharing"`
}

var gateOf = map[string]string{"MPS": "MPSSupport", "TimeSlicing": "TimeSlicingSettings"}

// mpsOf reads the last configuration that a claim has for a driver; nil where it asks for no MPS.
func mpsOf(driver string, gates string, claim *resourceapi.ResourceClaim) (*mpsConfig, error) {
	var found *mpsConfig
	for _, each := range claim.Status.Allocation.Devices.Config {
		if each.Opaque == nil || each.Opaque.Driver != driver {
			continue
		}
		var config gpuConfig
		decoder := json.NewDecoder(bytes.NewReader(each.Opaque.Parameters.Raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&config); err != nil {
			return nil, fmt.Errorf("error decoding config parameters: %w", err)
		}
		if config.APIVersion != "resource.nvidia.com/v1beta1" || config.Kind != "GpuConfig" {
			return nil, fmt.Errorf("runtime object is not a recognized configuration: %s %s", config.APIVersion, config.Kind)
		}
		found = nil
		if config.Sharing == nil {
			continue
		}
		gate, known := gateOf[config.Sharing.Strategy]
		if !known {
			return nil, fmt.Errorf("unknown GPU sharing strategy: %s", config.Sharing.Strategy)
		}
		if !strings.Contains(","+gates+",", ","+gate+"=true,") {
			return nil, fmt.Errorf("%q is selected as the GPU sharing strategy, but the %q feature gate is not enabled",
				config.Sharing.Strategy, gate)
		}
		if config.Sharing.Strategy == "MPS" {
			if found = config.Sharing.MpsConfig; found == nil {
				found = &mpsConfig{}
			}
		}
	}
	return found, nil
}

// started says how an MPS control daemon would be started for these GPUs (templates/mps-control-daemon.tmpl.yaml).
func (c *mpsConfig) started(devices []resourceapi.Device) string {
	line := "nvidia-cuda-mps-control -d"
	if c.MultiUser != nil && *c.MultiUser {
		line += " -M"
	}
	lines := []string{line}
	if c.DefaultActiveThreadPercentage != nil {
		lines = append(lines, fmt.Sprintf("set_default_active_thread_percentage %d", *c.DefaultActiveThreadPercentage))
	}
	if c.DefaultPinnedDeviceMemoryLimit != nil {
		for _, device := range devices {
			lines = append(lines, fmt.Sprintf("set_default_device_pinned_mem_limit %s %dM",
				*device.Attributes["uuid"].StringValue, c.DefaultPinnedDeviceMemoryLimit.Value()/1024/1024))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// shareGpus gives each of a claim's CDI devices what clients of its MPS daemon have.
func shareGpus(folder, gates string, claim *resourceapi.ResourceClaim, devices []resourceapi.Device, spec *cdiSpec) error {
	config, err := mpsOf("gpu.nvidia.com", gates, claim)
	if err != nil || config == nil {
		return err
	}
	root := filepath.Join(folder, "mps", string(claim.UID))
	var mounts []any
	for name, path := range map[string]string{"pipe": "/tmp/nvidia-mps", "shm": "/dev/shm"} {
		host := filepath.Join(root, name)
		if err := os.MkdirAll(host, 0o755); err != nil {
			return err
		}
		// The real one is a tmpfs of its own, where everybody writes.
		if name == "shm" {
			if err := os.Chmod(host, 0o777|os.ModeSticky); err != nil {
				return err
			}
		}
		mounts = append(mounts, map[string]any{"hostPath": host, "containerPath": path,
			"options": []string{"rw", "nosuid", "nodev", "bind"}})
	}
	for _, each := range spec.Devices {
		each.ContainerEdits["mounts"] = mounts
		each.ContainerEdits["env"] = append(each.ContainerEdits["env"].([]string), "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps")
	}
	return os.WriteFile(filepath.Join(root, "pipe", "started"), []byte(config.started(devices)), 0o644)
}

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
	gates := flags.String("feature-gates", "", "those of the real driver that are on, as NAME=true,...")
	flags.Parse(os.Args[1:])
	driver.edit = func(device resourceapi.Device) (map[string]any, error) { return gpuEdits(*nodes, device) }
	driver.configure = func(claim *resourceapi.ResourceClaim, devices []resourceapi.Device, spec *cdiSpec) error {
		return shareGpus(*nodes, *gates, claim, devices, spec)
	}
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
