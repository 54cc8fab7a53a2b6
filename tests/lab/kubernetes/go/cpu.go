// A stand-in for kubernetes-sigs/dra-driver-cpu in its individual mode. As the real one it publishes each logical
// CPU as a device of the driver dra.cpu, names a claim's CPUs to its container by a variable
// (DRA_CPUSET_<claim>=1,3) that CDI injects, and is an NRI plugin that pins a container with such variables to
// exactly these CPUs, and keeps all others on those that no claim has: those that run are moved when a claim comes
// or goes. While claims have all CPUs, the others stay where they were. Which core and NUMA node a CPU is of is
// invented where the devices are written (cpus.py): the stand-in asks no kernel.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	cpuDriver   = "dra.cpu"
	cpuVariable = "DRA_CPUSET_"
)

func cpuID(device resourceapi.Device) int64 { return *device.Attributes[cpuDriver+"/cpuID"].IntValue }

func cpuList(devices []resourceapi.Device) string {
	var cpus []int
	for _, device := range devices {
		cpus = append(cpus, int(cpuID(device)))
	}
	sort.Ints(cpus)
	var words []string
	for _, cpu := range cpus {
		words = append(words, strconv.Itoa(cpu))
	}
	return strings.Join(words, ",")
}

// claimedCPUs are those that the variables of a container name; it may have several claims.
func claimedCPUs(container *api.Container) string {
	var found []string
	for _, each := range container.GetEnv() {
		name, cpus, _ := strings.Cut(each, "=")
		if strings.HasPrefix(name, cpuVariable) && cpus != "" {
			found = append(found, cpus)
		}
	}
	return strings.Join(found, ",")
}

// cpuKeeper knows the containers without a claim. The runtime holds a lock while it calls a plugin, and takes it
// to update containers: nothing that it calls may wait for an update.
type cpuKeeper struct {
	driver  *standin
	mutex   sync.Mutex
	sharing map[string]bool
	runtime stub.Stub
	updates sync.Mutex
}

// shared are the CPUs that no claim has.
func (k *cpuKeeper) shared() string {
	var free []resourceapi.Device
	held := k.driver.holders()
	for name, device := range k.driver.devices {
		if held[name] == "" {
			free = append(free, device)
		}
	}
	return cpuList(free)
}

func (k *cpuKeeper) moves() []*api.ContainerUpdate {
	var updates []*api.ContainerUpdate
	if cpus := k.shared(); cpus != "" {
		for id := range k.sharing {
			update := &api.ContainerUpdate{}
			update.SetContainerId(id)
			update.SetLinuxCPUSetCPUs(cpus)
			update.SetIgnoreFailure() // It may be about to start, after which it is moved, or have ended.
			updates = append(updates, update)
		}
	}
	return updates
}

// spread moves containers without a claim to the CPUs that are left.
func (k *cpuKeeper) spread() error {
	k.updates.Lock()
	defer k.updates.Unlock()
	k.mutex.Lock()
	runtime, updates := k.runtime, k.moves()
	k.mutex.Unlock()
	if runtime == nil {
		return fmt.Errorf("the container runtime is away")
	}
	if len(updates) == 0 {
		return nil
	}
	_, err := runtime.UpdateContainers(updates)
	return err
}

func (k *cpuKeeper) Synchronize(_ context.Context, _ []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.sharing = map[string]bool{}
	for _, container := range containers {
		if claimedCPUs(container) == "" {
			k.sharing[container.GetId()] = true
		}
	}
	return k.moves(), nil
}

func (k *cpuKeeper) CreateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	cpus := claimedCPUs(container)
	if cpus == "" {
		k.sharing[container.GetId()] = true
		cpus = k.shared()
	}
	if cpus == "" {
		return nil, nil, nil
	}
	adjustment := &api.ContainerAdjustment{}
	adjustment.SetLinuxCPUSetCPUs(cpus)
	return adjustment, nil, nil
}

func (k *cpuKeeper) PostStartContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	if claimedCPUs(container) == "" {
		go k.spread()
	}
	return nil
}

func (k *cpuKeeper) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.sharing, container.GetId())
	return nil
}

func (k *cpuKeeper) connect(socket string) {
	for { // A runtime that restarts ends the connection.
		plugin, err := stub.New(k, stub.WithPluginName(cpuDriver), stub.WithPluginIdx("00"), stub.WithSocketPath(socket))
		if err == nil {
			if err = plugin.Start(context.Background()); err == nil {
				k.reach(plugin)
				plugin.Wait()
				k.reach(nil)
			}
		}
		fmt.Fprintln(os.Stderr, "the container runtime is away:", err)
		time.Sleep(100 * time.Millisecond)
	}
}

func (k *cpuKeeper) reach(plugin stub.Stub) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.runtime = plugin
}

func serveCPUs() error {
	driver := &standin{name: cpuDriver, kind: "bai.dev/cpu",
		edit: func(device resourceapi.Device) (map[string]any, error) {
			return map[string]any{}, nil
		},
		variable: func(claim types.UID, devices []resourceapi.Device) string {
			return cpuVariable + string(claim) + "=" + cpuList(devices)
		}}
	keeper := &cpuKeeper{driver: driver, sharing: map[string]bool{}}
	driver.changed = keeper.spread
	flags, options := standinFlags(driver)
	socket := flags.String("nri", "/var/run/nri/nri.sock", "containerd's socket")
	flags.Parse(os.Args[1:])
	devices, err := driver.load(options)
	if err != nil {
		return err
	}
	go keeper.connect(*socket)
	return driver.serve(options, devices)
}

func init() { applets["cpu-standin"] = run(serveCPUs) }
