// What the stand-ins for DRA drivers have in common: they publish the devices of a file as JSON, prepare claims as
// CDI specifications, and refuse, as real drivers do, a device that they do not have or that another claim holds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

type cdiDevice struct {
	Name           string         `json:"name"`
	ContainerEdits map[string]any `json:"containerEdits"`
}

type cdiSpec struct {
	CDIVersion string      `json:"cdiVersion"`
	Kind       string      `json:"kind"`
	Devices    []cdiDevice `json:"devices"`
}

type standin struct {
	name, cdi, kind string
	devices         map[string]resourceapi.Device
	// edit gives what a container has of one device, variable the name and value that tell all of a claim's.
	edit     func(resourceapi.Device) (map[string]any, error)
	variable func(types.UID, []resourceapi.Device) string
	// configure does what a claim's configuration asks for, where a driver has any.
	configure func(*resourceapi.ResourceClaim, []resourceapi.Device, *cdiSpec) error
	// changed is called when a claim has been prepared or has gone.
	changed func() error
}

func (d *standin) file(uid types.UID) string {
	return filepath.Join(d.cdi, d.name+"-"+string(uid)+".json")
}

func (d *standin) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		if err == nil {
			err = d.changed()
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *standin) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	var prepared []kubeletplugin.Device
	var given []resourceapi.Device
	spec := cdiSpec{CDIVersion: "0.6.0", Kind: d.kind}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.name {
			continue
		}
		device, known := d.devices[result.Device]
		if !known {
			return nil, fmt.Errorf("there is no device %s here", result.Device)
		}
		if other := d.holders()[result.Device]; other != "" && other != string(claim.UID) {
			return nil, fmt.Errorf("device %s is prepared for claim %s", result.Device, other)
		}
		edits, err := d.edit(device)
		if err != nil {
			return nil, err
		}
		given = append(given, device)
		id := string(claim.UID) + "_" + result.Device
		spec.Devices = append(spec.Devices, cdiDevice{id, edits})
		prepared = append(prepared, kubeletplugin.Device{Requests: []string{result.Request}, PoolName: result.Pool,
			DeviceName: result.Device, CDIDeviceIDs: []string{d.kind + "=" + id}})
	}
	for _, each := range spec.Devices {
		each.ContainerEdits["env"] = []string{d.variable(claim.UID, given)}
	}
	if d.configure != nil {
		if err := d.configure(claim, given, &spec); err != nil {
			return nil, err
		}
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	draft := d.file(claim.UID) + ".new"
	if err := os.WriteFile(draft, content, 0o644); err != nil {
		return nil, err
	}
	return prepared, os.Rename(draft, d.file(claim.UID))
}

// holders says for each prepared device for which claim: what is written survives a restart of the driver.
func (d *standin) holders() map[string]string {
	found := map[string]string{}
	files, _ := filepath.Glob(d.file("*"))
	for _, file := range files {
		var spec cdiSpec
		content, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(content, &spec) != nil {
			continue
		}
		for _, each := range spec.Devices {
			uid, name, _ := strings.Cut(each.Name, "_")
			found[name] = uid
		}
	}
	return found
}

func (d *standin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.file(claim.UID))
		if err == nil || errors.Is(err, os.ErrNotExist) {
			err = d.changed()
		}
		results[claim.UID] = err
	}
	return results, nil
}

func (d *standin) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintln(os.Stderr, message, err)
}

type options struct{ kubeconfig, node, root, devices *string }

// standinFlags are those of all stand-ins; the folder for CDI specifications goes to the stand-in itself.
func standinFlags(d *standin) (*flag.FlagSet, options) {
	flags := flag.NewFlagSet(d.name, flag.ExitOnError)
	flags.StringVar(&d.cdi, "cdi", "/var/run/cdi", "folder for CDI specifications")
	return flags, options{
		flags.String("kubeconfig", "", "how to reach the API server"),
		flags.String("node", "", "name of the node"),
		flags.String("kubelet-root", "/var/lib/kubelet", "the kubelet's folder"),
		flags.String("devices", "", "file with the devices of a ResourceSlice, as JSON"),
	}
}

// load reads the devices that there are to be.
func (d *standin) load(o options) ([]resourceapi.Device, error) {
	content, err := os.ReadFile(*o.devices)
	if err != nil {
		return nil, err
	}
	var devices []resourceapi.Device
	if err := json.Unmarshal(content, &devices); err != nil {
		return nil, err
	}
	d.devices = map[string]resourceapi.Device{}
	for _, device := range devices {
		d.devices[device.Name] = device
	}
	return devices, os.MkdirAll(d.cdi, 0o750)
}

// serve publishes these devices and answers the kubelet until the program is told to end.
func (d *standin) serve(o options, devices []resourceapi.Device) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	registry, data := filepath.Join(*o.root, "plugins_registry"), filepath.Join(*o.root, "plugins", d.name)
	for _, folder := range []string{registry, data} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return err
		}
	}
	plugin, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(d.name), kubeletplugin.NodeName(*o.node),
		kubeletplugin.KubeClient(client), kubeletplugin.RegistrarDirectoryPath(registry),
		kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return err
	}
	defer plugin.Stop()
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
	err = plugin.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{*o.node: pool}})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func run(serve func() error) func() {
	return func() {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
