// A stand-in for NVIDIA's device plugin, for machines without a GPU. It registers the resources of a file at the
// kubelet as the real one does (v1beta1), and hands a container what it can read back from inside: the device nodes
// and NVIDIA_VISIBLE_DEVICES, as the real one's strategy `envvar`. Which devices a container gets, the kubelet
// chooses, and refuses more than there are. Behind each node is /dev/null.
//
// The file says for each resource which devices it has: {"nvidia.com/gpu": [{"id": "GPU-...", "minor": 0}]}; one
// with "unhealthy": true is told as that. It is read again whenever it changes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const pluginPause = 200 * time.Millisecond

type pluginDevice struct {
	ID        string `json:"id"`
	Minor     int    `json:"minor"`
	Unhealthy bool   `json:"unhealthy"`
}

// pluginFile is the file as it was last read, for all resources; `changed` is closed when it is another one.
type pluginFile struct {
	path    string
	lock    sync.Mutex
	content []byte
	found   map[string][]pluginDevice
	changed chan struct{}
}

func (f *pluginFile) read() error {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if bytes.Equal(content, f.content) {
		return nil
	}
	found := map[string][]pluginDevice{}
	if err := json.Unmarshal(content, &found); err != nil {
		return err
	}
	f.content, f.found = content, found
	close(f.changed)
	f.changed = make(chan struct{})
	return nil
}

func (f *pluginFile) of(resource string) ([]pluginDevice, chan struct{}) {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.found[resource], f.changed
}

func (f *pluginFile) resources() []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	var names []string
	for name := range f.found {
		names = append(names, name)
	}
	return names
}

type devicePlugin struct {
	pluginapi.UnimplementedDevicePluginServer
	resource, nodes string
	file            *pluginFile
}

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *devicePlugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	for {
		devices, changed := p.file.of(p.resource)
		answer := &pluginapi.ListAndWatchResponse{}
		for _, device := range devices {
			health := pluginapi.Healthy
			if device.Unhealthy {
				health = pluginapi.Unhealthy
			}
			answer.Devices = append(answer.Devices, &pluginapi.Device{ID: device.ID, Health: health})
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *devicePlugin) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	known := map[string]pluginDevice{}
	devices, _ := p.file.of(p.resource)
	for _, device := range devices {
		known[device.ID] = device
	}
	answer := &pluginapi.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		given := &pluginapi.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		}
		for _, id := range container.DevicesIds {
			device, ok := known[id]
			if !ok {
				return nil, fmt.Errorf("there is no device %s here", id)
			}
			name := fmt.Sprintf("nvidia%d", device.Minor)
			if _, err := gpuEdits(p.nodes, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", device.Minor)}); err != nil {
				return nil, err
			}
			given.Devices = append(given.Devices, &pluginapi.DeviceSpec{
				HostPath: filepath.Join(p.nodes, name), ContainerPath: "/dev/" + name, Permissions: "rw"})
		}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}

// serve answers the kubelet for one resource until the context ends. A kubelet that starts anew clears its folder
// of sockets away: the plugin listens and registers again then, as the real one does.
func (p *devicePlugin) serve(ctx context.Context) error {
	name := "standin-" + strings.NewReplacer("/", "-", ".", "-").Replace(p.resource) + ".sock"
	path := filepath.Join(pluginapi.DevicePluginPath, name)
	for ctx.Err() == nil {
		_ = os.Remove(path)
		listener, err := net.Listen("unix", path)
		if err == nil {
			server := grpc.NewServer()
			pluginapi.RegisterDevicePluginServer(server, p)
			go server.Serve(listener)
			if err = p.register(ctx, name); err == nil {
				for ctx.Err() == nil {
					if _, gone := os.Stat(path); gone != nil {
						break
					}
					time.Sleep(pluginPause)
				}
			}
			server.Stop()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, p.resource, err)
		}
		time.Sleep(pluginPause)
	}
	return nil
}

func (p *devicePlugin) register(ctx context.Context, endpoint string) error {
	connection, err := grpc.NewClient("unix://"+pluginapi.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(connection).Register(limited, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: endpoint, ResourceName: p.resource})
	return err
}

func servePlugin() error {
	flags := flag.NewFlagSet("plugin-standin", flag.ExitOnError)
	path := flags.String("devices", "", "file with the devices of each resource, as JSON")
	nodes := flags.String("dev", "", "folder for device nodes")
	flags.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, folder := range []string{*nodes, pluginapi.DevicePluginPath} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return err
		}
	}
	file := &pluginFile{path: *path, changed: make(chan struct{})}
	if err := file.read(); err != nil {
		return err
	}
	for _, resource := range file.resources() {
		go (&devicePlugin{resource: resource, nodes: *nodes, file: file}).serve(ctx)
	}
	for ctx.Err() == nil {
		time.Sleep(pluginPause)
		if err := file.read(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return nil
}

func init() { applets["plugin-standin"] = run(servePlugin) }
