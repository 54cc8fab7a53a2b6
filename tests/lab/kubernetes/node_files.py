"""What a node of the lab is configured with: files for its containerd, kubelet and pod network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.kubernetes.control_plane import DOMAIN
from tests.lab.kubernetes.images import PAUSE, full_name
from tests.lab.kubernetes.pki import Pair

_WISHES = {
    "vm.overcommit_memory": "1", "vm.panic_on_oom": "0", "kernel.panic": "10", "kernel.panic_on_oops": "1",
    "kernel.keys.root_maxkeys": "1000000", "kernel.keys.root_maxbytes": "25000000",
}  # fmt: skip
"""Settings of the kernel that a kubelet makes: they are the whole machine's, and stay as they are."""
INIT = """
set -eu
folder=$1
mount --make-rprivate /
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs "$folder/memory"
for place in run var/lib var/log; do
    mkdir -p "$folder/memory/$place/upper" "$folder/memory/$place/work"
    layers="lowerdir=/$place,upperdir=$folder/memory/$place/upper,workdir=$folder/memory/$place/work"
    mount -t overlay -o "$layers" overlay "/$place"
done
for file in "$folder"/settings/*; do
    mount --bind "$file" "/proc/sys/$(basename "$file" | tr . /)"
done
touch "$folder/up"
while :; do sleep 3600; done
"""
"""First process of a node: what programs write to places of the machine's stays in the node's own memory."""


@dataclass(frozen=True)
class NodePaths:
    """Where things of a node are. What is in `memory` is lost when it is off, and seen from inside alone."""

    folder: Path

    @property
    def memory(self) -> Path:
        return self.folder / "memory"

    @property
    def socket(self) -> Path:
        return self.memory / "containerd.sock"

    @property
    def nri(self) -> Path:
        return self.memory / "nri.sock"

    @property
    def kubelet(self) -> Path:
        return self.folder / "kubelet"

    @property
    def cdi(self) -> Path:
        return self.memory / "cdi"

    @property
    def settings(self) -> Path:
        return self.folder / "settings"


def write_settings(paths: NodePaths, boot: str) -> None:
    """Those that a kubelet would make, and by which it knows that the machine was booted again."""
    paths.settings.mkdir(exist_ok=True)
    for name, value in {**_WISHES, "kernel.random.boot_id": boot}.items():
        (paths.settings / name).write_text(f"{value}\n")


def write_pod_network(paths: NodePaths, subnet: str) -> None:
    """A bridge of the node's, with an address of `subnet` for each pod."""
    addresses = {
        "type": "host-local",
        "dataDir": str(paths.memory / "addresses"),
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    folder = paths.folder / "cni"
    folder.mkdir(exist_ok=True)
    network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
    (folder / "10-pods.conflist").write_text(json.dumps(network))


def containerd_config(paths: NodePaths, programs: Path, plugin: str) -> str:
    """TOML for containerd; `plugin`: the NRI plugin without which no container starts; empty: none."""
    left_out = [f"io.containerd.snapshotter.v1.{name}" for name in ("erofs", "blockfile", "devmapper", "zfs")]
    required = json.dumps([plugin] if plugin else [])
    return f"""
version = 3
root = "{paths.folder}/containerd"
state = "{paths.memory}/containerd"
disabled_plugins = {json.dumps([*left_out, "io.containerd.internal.v1.opt"])}
[grpc]
  address = "{paths.socket}"
[ttrpc]
  address = "{paths.socket}.ttrpc"
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = "{paths.nri}"
  plugin_path = "{paths.folder}/empty"
  plugin_config_path = "{paths.folder}/empty"
  [plugins.'io.containerd.nri.v1.nri'.default_validator]
    enable = {json.dumps(bool(plugin))}
    required_plugins = {required}
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{full_name(PAUSE)}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_cdi = true
  cdi_spec_dirs = ["{paths.cdi}"]
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    use_internal_loopback = true
    bin_dirs = ["{programs}/cni"]
    conf_dir = "{paths.folder}/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      Root = "{paths.memory}/runc"
"""


def kubelet_config(paths: NodePaths, server: Pair, authority: Path, **others: Any) -> str:
    """KubeletConfiguration, as YAML; `others` are fields that differ between nodes."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "port": 10250,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "tlsCertFile": str(server.certificate),
        "tlsPrivateKeyFile": str(server.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": f"unix://{paths.socket}",
        "clusterDomain": DOMAIN,
        "resolvConf": "",
        "makeIPTablesUtilChains": False,
        "volumePluginDir": str(paths.folder / "volume-plugins"),
        "podLogsDir": str(paths.folder / "logs"),
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "cpuManagerReconcilePeriod": "2s",
        "topologyManagerPolicy": "best-effort",
        "nodeStatusUpdateFrequency": "5s",
        "nodeStatusReportFrequency": "5m",  # Where nothing has changed: leases tell that it lives.
        "nodeLeaseDurationSeconds": 20,
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        **others,
    }
    return yaml.safe_dump(config)
