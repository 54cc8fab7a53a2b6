"""A node: a real kubelet and containerd in network, mount and process namespaces of their own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.harness.processes import children
from tests.lab.cache import ran
from tests.lab.kubernetes import cpus, gpus, images
from tests.lab.kubernetes.api import CORE, RESOURCE, kubeconfig
from tests.lab.kubernetes.control_plane import PORT, ControlPlane
from tests.lab.kubernetes.daemon import Daemon, NotUp
from tests.lab.kubernetes.node_files import (
    INIT,
    NodePaths,
    containerd_config,
    kubelet_config,
    write_pod_network,
    write_settings,
)
from tests.lab.spaces import PATIENCE, delegate, hierarchies, make_group, started, within
from tests.waiting import soon

CpuPolicy = Literal["static", "none", "dra"]
_PINNED_BY = {"static": "", "none": "cpuset", "dra": cpus.DRIVER}
"""Policy → name of the NRI plugin that pins containers."""


@dataclass(frozen=True)
class NodeOptions:
    """`static`: the kubelet chooses CPUs, as its CPU manager does. With the others that is off: `none`: the
    NRI plugin pins containers to what the annotation `cpuset.bai.dev/<container>` of their pod says; `dra`:
    each CPU is a device of the stand-in for dra-driver-cpu, which pins containers to those of their claims.
    `gpus`: how many the stand-in for NVIDIA's DRA driver has; without any there is no driver. `mps`: its
    feature gate `MPSSupport` is on. `counted`: how many the stand-in for NVIDIA's device plugin counts."""

    cpu_policy: CpuPolicy = "none"
    gpus: int = 8
    mps: bool = True
    counted: int = 0
    labels: tuple[str, ...] = ()


@dataclass
class Node:
    """One machine of the cluster. `kubelet`, `containerd`, `driver` (of GPUs), `plugin` (which counts
    them) and `pinner` (which pins CPUs) can be ended and started."""

    name: str
    control_plane: ControlPlane = field(repr=False)
    options: NodeOptions = NodeOptions()
    boot: str = ""
    _loaded: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    """The containerd that has been seen to answer, and to have the lab's images."""

    def __post_init__(self) -> None:
        spaces, programs = self.control_plane.spaces, self.control_plane.programs
        self.namespace, self.address = spaces.add()
        self.subnet = f"10.214.{len(spaces.nodes)}.0/24"
        """Addresses of its pods."""
        self.folder = spaces.folder / self.name
        self.paths = NodePaths(self.folder)
        self.groups = [top / spaces.prefix / self.name for top in hierarchies()]
        for name in ("memory", "empty", "containerd", "kubelet", "dev"):
            (self.folder / name).mkdir(parents=True)
        self._connect()
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        init = ["/bin/sh", "-c", INIT, "node", str(self.folder)]
        log = self.folder / "init.log"
        self.machine = Daemon("init", init, log, within(self.namespace, own))
        self._write_files(programs)
        self.containerd = self._daemon("containerd", "--config", f"{self.folder}/containerd.toml")
        gates = ["-feature-gates", "MPSSupport=true"] if self.options.mps else []
        self.driver = self._driver("gpu-standin", self._gpus, "-dev", f"{self.folder}/dev", *gates)
        self.count()
        self.plugin = self._daemon(
            "plugin-standin", "-devices", str(self._counts), "-dev", f"{self.folder}/dev"
        )
        if self.options.cpu_policy == "dra":
            self.pinner = self._driver("cpu-standin", self._cpus, "-nri", str(self.paths.nri))
        else:
            self.pinner = self._daemon("nri-cpuset", "-socket", str(self.paths.nri))
        self.kubelet = self._kubelet()

    def _connect(self) -> None:
        """Pods of other nodes, and names, are behind the control plane."""
        plane = self.control_plane
        plane.spaces.route(self.namespace, "default", plane.address)
        plane.spaces.route(plane.namespace, self.subnet, self.address)

    def _write_files(self, programs: Path) -> None:
        write_pod_network(self.paths, self.subnet)
        plugin = _PINNED_BY[self.options.cpu_policy]
        (self.folder / "containerd.toml").write_text(containerd_config(self.paths, programs, plugin))

    def _daemon(self, name: str, *words: str) -> Daemon:
        plane = self.control_plane
        argv = [str(plane.programs / name), *words]
        return Daemon(name, argv, self.folder / f"{name}.log", forks=True, path=str(plane.programs))

    @property
    def _gpus(self) -> list[dict[str, Any]]:
        return gpus.devices(self.name, self.options.gpus)

    @property
    def _cpus(self) -> list[dict[str, Any]]:
        """All CPUs of this machine, where they are devices."""
        return cpus.devices(range(os.cpu_count() or 1)) if self.options.cpu_policy == "dra" else []

    def _driver(self, name: str, devices: list[dict[str, Any]], *words: str) -> Daemon:
        """A stand-in that publishes these devices."""
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(devices))
        return self._daemon(
            name, "-kubeconfig", str(self.control_plane.inner_kubeconfig), "-node", self.name,
            "-kubelet-root", str(self.paths.kubelet), "-cdi", str(self.paths.cdi), "-devices", str(file),
            *words,
        )  # fmt: skip

    def _kubelet(self) -> Daemon:
        plane = self.control_plane
        pair = plane.authority.issue(
            f"system:node:{self.name}", "system:nodes", hosts=(self.address, self.name)
        )
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        server, authority = f"https://{plane.address}:{PORT}", plane.authority.certificate
        config = self.folder / "kubelet.yaml"
        static = {"reservedSystemCPUs": "0"} if self.options.cpu_policy == "static" else {}
        others: dict[str, Any] = {
            "address": self.address,
            "cgroupRoot": f"/{plane.spaces.prefix}/{self.name}",
            "cpuManagerPolicy": "static" if static else "none",
            "clusterDNS": [plane.address],
            **static,
        }
        config.write_text(kubelet_config(self.paths, pair, authority, **others))
        labels = ["--node-labels=" + ",".join(self.options.labels)] if self.options.labels else []
        return self._daemon(
            "kubelet", f"--config={config}", f"--root-dir={self.paths.kubelet}",
            f"--kubeconfig={kubeconfig(self.folder / 'kubeconfig', server, authority, user)}",
            f"--cert-dir={self.folder}/pki", f"--hostname-override={self.name}", f"--node-ip={self.address}",
            "--v=2", *labels,
        )  # fmt: skip

    @property
    def _counts(self) -> Path:
        return self.folder / "plugin-standin.json"

    def count(self, unhealthy: int = 0) -> None:
        """What its device plugin counts from now on: the first so many are not healthy."""
        devices = [
            {"id": gpus.gpu_uuid(self.name, minor), "minor": minor, "unhealthy": minor < unhealthy}
            for minor in range(self.options.counted)
        ]
        draft = self._counts.with_suffix(".new")
        draft.write_text(json.dumps({gpus.COUNTED: devices}))
        draft.replace(self._counts)

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """In the order in which they start; all but `machine`."""
        pinner = (self.pinner,) if _PINNED_BY[self.options.cpu_policy] else ()
        driver = (self.driver,) if self.options.gpus else ()
        plugin = (self.plugin,) if self.options.counted else ()
        return (self.containerd, *pinner, *driver, *plugin, self.kubelet)

    def start(self) -> None:
        """Power on; `wait` for it. Nothing happens while it is on."""
        if self.machine.runs():
            return
        self.boot = str(uuid.uuid4())
        (self.folder / "up").unlink(missing_ok=True)
        write_settings(self.paths, self.boot)
        for group in self.groups:
            make_group(group)
            delegate(group)
        self.machine.start()

    def wait(self) -> None:
        """Until all of its programs run and it is Ready, as booted this time. Raises NotUp."""
        self.machine.wait((self.folder / "up").exists)
        for daemon in self.daemons:
            self.start_daemon(daemon)
        try:
            self.kubelet.wait(self.ready)
        except NotUp as error:
            raise NotUp(f"{error}\n{self._seen()}") from None

    def start_daemon(self, daemon: Daemon) -> None:
        """One of its programs, on the node; for containerd, until it answers and has the lab's images."""
        if daemon.runs() and (daemon is not self.containerd or self._loaded is daemon.process):
            return
        daemon.prefix = self._inside()
        daemon.start()
        if daemon is self.containerd:
            daemon.wait(self._containerd_listens)
            self._load()
            self._loaded = daemon.process

    def restart(self, daemon: Daemon) -> None:
        """Kill one of its programs and start it again; containers are left to their keepers."""
        daemon.kill()
        self.start_daemon(daemon)

    def _containerd_listens(self) -> bool:
        """Its socket is seen on the node alone. To ask with `ctr` costs as much as a tenth of its start."""
        with socket.socket(socket.AF_UNIX) as asked:
            return asked.connect_ex(f"/proc/{self._first()}/root{self.paths.socket}") == 0

    def _load(self) -> None:
        listed = self.ctr("images", "ls", "-q")
        if listed.returncode:
            raise NotUp(f"{self.name} does not say which images it has: {listed.stderr}")
        known = listed.stdout.split()
        for image, archive in images.archives().items():
            if image not in known:
                self.take(archive)

    def take(self, archive: Path) -> None:
        """Have the image of an archive that `docker save` writes. Raises NotUp."""
        # That of bai itself has more than half a gigabyte.
        done = self.ctr("images", "import", "--snapshotter", "overlayfs", str(archive), timeout=600)
        if done.returncode:
            raise NotUp(f"{self.name} does not take {archive}: {done.stderr}")

    def ready(self) -> bool:
        """Whether the API server has heard so since it was switched on, and of all its devices."""
        status = self._status()
        if status.get("nodeInfo", {}).get("bootID") != self.boot:
            return False
        states = {each["type"]: each["status"] for each in status.get("conditions", [])}
        counted = int(status.get("allocatable", {}).get(gpus.COUNTED, 0))
        published = self._published() >= len(self._gpus) + len(self._cpus)
        return states.get("Ready") == "True" and published and counted >= self.options.counted

    def _status(self) -> dict[str, Any]:
        found = self.control_plane.api.find(f"{CORE}/nodes/{self.name}")
        return {} if found is None else found["status"]

    def _published(self) -> int:
        """How many devices the API server knows of."""
        path = f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName={self.name}"
        slices = self.control_plane.api.get(path)["items"]
        return sum(len(each["spec"].get("devices", ())) for each in slices)

    def _seen(self) -> str:
        """What `ready` looks at, and the last words of its drivers."""
        status = self._status()
        lines = [f"booted as {self.boot}, {self._published()} devices published"]
        lines += [json.dumps(status.get(name)) for name in ("conditions", "nodeInfo")]
        return "\n".join([*lines, *(each.tail() for each in self.daemons if each is not self.kubelet)])

    def run(self, argv: Sequence[str], *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """A command on the node, in all of its namespaces."""
        return ran([*self._inside(), *argv], timeout=timeout)

    def ctr(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """containerd's own command, on what the kubelet has."""
        program = str(self.control_plane.programs / "ctr")
        return self.run([program, "-a", str(self.paths.socket), "-n", "k8s.io", *words], timeout=timeout)

    def _first(self) -> int:
        """The first process of the node, seen from outside. Raises NotUp."""
        found = children(self.machine.pid())
        if not found:
            raise NotUp(f"{self.name} is off: {self.machine.tail()}")
        return found[0]

    def _inside(self) -> list[str]:
        return ["nsenter", f"--target={self._first()}", "--mount", "--pid", "--net", "--"]

    def link(self, *, up: bool) -> None:
        """Cut its cable, or mend it: without a word to anybody."""
        self.control_plane.spaces.link(self.namespace, up=up)

    def mend(self) -> None:
        """As it was when it was new, whatever became of it; pods and what is in its memory aside."""
        self.count()
        self.link(up=True)
        self.start()
        self.wait()

    def kill(self) -> None:
        """Power off, all at once, containers, too. `start` and `wait` bring it back with its disk."""
        first = children(self.machine.pid()) if self.machine.runs() else []
        self.machine.kill()
        soon(lambda: not any(map(started, first)), seconds=PATIENCE, pause=0.01)
        for daemon in self.daemons:
            with contextlib.suppress(ProcessLookupError):
                daemon.kill()
