"""A real Kubernetes cluster on this machine, grown on demand.

    def test_something(kubernetes: Kubernetes, kube_namespace: str) -> None:
        node = kubernetes.node("n0", NodeOptions(cpu_policy="static"))
        kubernetes.api.create(f"{CORE}/namespaces/{kube_namespace}/pods", {...})

etcd, API server (RBAC, TLS), scheduler, controller manager and cluster DNS are in one network namespace; each
node has a kubelet and a containerd in another one. Pods have addresses that all nodes reach, and names below
`cluster.local` where a headless Service says so. There is no kube-proxy: a Service's own address leads
nowhere, but for the API server's. GPUs are NVIDIA's by name only (`gpus.py`): this machine needs none.
CPUs are devices of a node that is asked for so (`cpus.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.harness.labs import spent
from tests.lab.cache import ran
from tests.lab.kubernetes import cpus, gpus, permissions, simulated
from tests.lab.kubernetes.api import CORE, RBAC, RESOURCE, Api, kubeconfig
from tests.lab.kubernetes.build import binaries
from tests.lab.kubernetes.control_plane import ControlPlane
from tests.lab.kubernetes.daemon import Daemon, NotUp
from tests.lab.kubernetes.node import Node, NodeOptions
from tests.lab.relay import Relay
from tests.lab.spaces import Spaces

PAIR = {"n0": NodeOptions(cpu_policy="static"), "n1": NodeOptions(cpu_policy="none")}
CORES = {"n2": NodeOptions(cpu_policy="dra")}
COUNTS = {"n5": NodeOptions(gpus=0, counted=4)}


class Kubernetes:
    """One cluster. `kubeconfig` and `api` have all rights. `node_grace`: seconds without a word after which a
    node is not ready; simulated ones speak more rarely with a long one, of which a slow machine bears more.
    Raises LabUnavailable, BuildFailed, NotUp."""

    def __init__(self, node_grace: int = 25) -> None:
        self.programs = binaries()
        self.spaces = Spaces()
        self.nodes: dict[str, Node] = {}
        self._simulated = 0
        self._kwok: Daemon | None = None
        self._numbers = itertools.count(1)
        try:
            self.control_plane = ControlPlane(self.spaces, self.programs, node_grace)
            self.folder = self.spaces.folder
            with spent("boot"):
                self.control_plane.start()
            for found in (gpus.device_class(), cpus.device_class()):
                self.api.create(f"{RESOURCE}/deviceclasses", found)
        except BaseException:
            self.close()
            raise

    @property
    def api(self) -> Api:
        return self.control_plane.api

    @property
    def kubeconfig(self) -> Path:
        return self.control_plane.kubeconfig

    def node(self, name: str, options: NodeOptions = NodeOptions()) -> Node:  # noqa: B008 (frozen)
        """That node, Ready; the same one each time. Raises NotUp."""
        return self.add({name: options})[0]

    def pair(self) -> tuple[Node, Node]:
        """`n0`, whose kubelet chooses CPUs, and `n1`, where annotations of pods pin them."""
        one, two = self.add(PAIR)
        return one, two

    def cores(self) -> Node:
        """`n2`, whose CPUs are devices."""
        return self.add(CORES)[0]

    def counts(self) -> Node:
        """`n5`, whose GPUs a device plugin counts."""
        return self.add(COUNTS)[0]

    def add(self, wanted: dict[str, NodeOptions]) -> list[Node]:
        """Several nodes, which come up side by side."""
        for name, options in wanted.items():
            if name not in self.nodes:
                self.nodes[name] = Node(name, self.control_plane, options)
            assert self.nodes[name].options == options, f"{name} is there, and has {self.nodes[name].options}"
        nodes = [self.nodes[name] for name in wanted]
        with spent("boot"), ThreadPoolExecutor(4) as pool:
            for node in nodes:  # A machine ends with the thread that starts it.
                node.link(up=True)
                node.start()
            try:
                list(pool.map(Node.wait, nodes))
            except NotUp:  # Whoever asks next does not wait for what will not come.
                for node in nodes:
                    node.kill()
                raise
        return nodes

    def kwok(self, count: int, gpus_each: int = 8, *, cores: bool = False) -> list[str]:
        """So many simulated nodes, by name, Ready: nothing runs there. Those that were there are gone.
        `cores`: their CPUs are devices."""
        shapes = [simulated.NodeShape(f"k{number:04}", gpus_each) for number in range(count)]
        return self.simulate(shapes, cores=cores)

    def simulate(self, shapes: Sequence[simulated.NodeShape], *, cores: bool = False) -> list[str]:
        """The same, of these shapes."""
        if self._simulated:
            simulated.remove(self.api)
        self._simulated = len(shapes)
        if not shapes:
            return []
        if self._kwok is None:
            self._kwok = simulated.keeper(self.control_plane)
        self._kwok.start()
        with spent("boot"):
            return simulated.add(self.api, shapes, cores=cores)

    @contextlib.contextmanager
    def shown(self, port: int) -> Iterator[str]:
        """The address at which pods reach a port of this machine's loopback meanwhile."""
        plane = self.control_plane
        relay = Relay((plane.address, port), "", ("127.0.0.1", port), at=plane.namespace)
        with contextlib.closing(relay):
            yield f"{plane.address}:{port}"

    def restart_kubelets(self) -> None:
        for node in self.nodes.values():
            node.restart(node.kubelet)

    def restore(self, folder: Path) -> None:
        """etcd as it was when `control_plane.snapshot` wrote this. As administrators do, whatever watches the
        API server begins anew, too: it goes on from a newer state otherwise, and hears of nothing until the
        server is past it. A driver would not publish again what a kubelet that restarts takes away."""
        self.control_plane.restore(folder)
        for node in self.nodes.values():
            for daemon in node.daemons:
                if daemon is not node.containerd:
                    node.restart(daemon)
        if self._kwok is not None:
            self._kwok.kill()
            self._kwok.start()

    def mend(self) -> None:
        """A control plane as it was when it was new, whatever a test has done to it."""
        self.control_plane.start()

    @contextlib.contextmanager
    def namespace(self) -> Iterator[str]:
        """A new namespace; in the end it goes, with all that is in it."""
        name = f"test-{next(self._numbers)}"
        self.api.create(f"{CORE}/namespaces", {"metadata": {"name": name}})
        self._until_pods_may_be_made(name)
        try:
            yield name
        finally:
            self.mend()
            self.remove(name)

    def remove(self, namespace: str) -> None:
        """Its pods first, which are given a second, then their claims: devices are free again. The rest goes
        some seconds later."""
        self.api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments")  # They make pods again.
        self.api.clear(f"{CORE}/namespaces/{namespace}/pods?gracePeriodSeconds=1")
        self.api.clear(f"{RESOURCE}/namespaces/{namespace}/resourceclaims")
        self.api.delete(f"{CORE}/namespaces/{namespace}")

    def account(
        self,
        namespace: str,
        name: str,
        rules: Sequence[dict[str, Any]],
        everywhere: Sequence[dict[str, Any]] = (),
    ) -> Path:
        """A kubeconfig for a new ServiceAccount that may do what the rules of a Role say in its namespace,
        and those of a ClusterRole in all of the cluster."""
        inside = f"{CORE}/namespaces/{namespace}"
        self.api.create(f"{inside}/serviceaccounts", {"metadata": {"name": name}})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        for kind, place, given, called in (
            ("Role", f"{RBAC}/namespaces/{namespace}", rules, name),
            ("ClusterRole", RBAC, everywhere, f"{namespace}-{name}"),
        ):
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": called}
            metadata = {"metadata": {"name": called}}
            self.api.create(f"{place}/{kind.lower()}s", {**metadata, "rules": list(given)})
            body = {**metadata, "roleRef": role, "subjects": [subject]}
            binding = self.api.create(f"{place}/{kind.lower()}bindings", body)
            permissions.until_heeded(self.api, permissions.user_of(subject), binding, given)
        path = self.control_plane.folder / f"{namespace}-{name}.kubeconfig"
        user = {"token": self.token_of(namespace, name)}
        authority = self.control_plane.authority.certificate
        return kubeconfig(path, self.control_plane.url, authority, user, namespace)

    def token_of(self, namespace: str, account: str, seconds: int = 3600) -> str:
        """A token that a ServiceAccount shows, for so long (600 at least)."""
        path = f"{CORE}/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self.api.create(path, {"spec": {"expirationSeconds": seconds}})
        return str(answer["status"]["token"])

    def kubectl(self, *words: str, timeout: float = 120) -> str:
        """What it prints; fails with its errors."""
        program = str(self.programs / "kubectl")
        done = ran([program, "--kubeconfig", str(self.kubeconfig), *words], timeout=timeout)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def pod(self, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create a pod, and wait until it runs or has ended."""
        self._until_pods_may_be_made(namespace)
        made = self.api.create(f"{CORE}/namespaces/{namespace}/pods", body)
        return self.begun(namespace, made["metadata"]["name"])

    def _until_pods_may_be_made(self, namespace: str) -> None:
        """Also in one that is there from the beginning: a controller of its own makes the account of pods."""
        account = f"{CORE}/namespaces/{namespace}/serviceaccounts/default"
        self.api.until(account, lambda _: True, "pods may be created")

    def begun(self, namespace: str, name: str) -> dict[str, Any]:
        """A pod once it runs or has ended; fails with its events."""
        path = f"{CORE}/namespaces/{namespace}/pods/{name}"
        try:
            found: dict[str, Any] = self.api.until(
                path, lambda pod: pod["status"].get("phase") not in (None, "Pending"), f"{name} runs"
            )
            return found
        except AssertionError as error:
            selector = f"fieldSelector=involvedObject.name={name}"
            events = self.api.get(f"{CORE}/namespaces/{namespace}/events?{selector}")["items"]
            raise AssertionError(f"{error}\n{json.dumps([one['message'] for one in events])}") from None

    def log(self, namespace: str, name: str) -> str:
        """What a pod of one container has written so far."""
        path = f"{CORE}/namespaces/{namespace}/pods/{name}/log"
        return str(self.api.call("GET", path, text=True))

    def close(self) -> None:
        """Everything goes: programs, containers, namespaces, mounts, control groups, files."""
        for node in self.nodes.values():
            node.kill()
        if self._kwok is not None:
            self._kwok.kill()
        if hasattr(self, "control_plane"):
            self.control_plane.kill()
        self.nodes.clear()
        self.spaces.close()
