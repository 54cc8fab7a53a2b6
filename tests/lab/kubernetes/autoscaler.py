"""A real cluster-autoscaler beside the lab's cluster, which grows a pool of simulated nodes
(its cloud provider `kwok`). `scripts/cluster-autoscaler.sh` builds it; tests are skipped by name until then.

A node that it makes has no devices yet: `publish` is the driver that comes with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.lab.cache import folder
from tests.lab.kubernetes import gpus, simulated
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.daemon import Daemon
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.spaces import within

POOL = {"pool": "gpus"}
CRD = Path(__file__).parent / "crds" / "autoscaling.x-k8s.io_provisioningrequests.yaml"
_GROUP = "cluster-autoscaler.kwok.nodegroup/name"
_PLACE = f"{CORE}/namespaces/kube-system/configmaps"


def program() -> Path | None:
    """The newest one that was built."""
    found = sorted(folder().glob("cluster-autoscaler-*/cluster-autoscaler"))
    return found[-1] if found else None


def why_not() -> str:
    return "" if program() else "cluster-autoscaler is not built: scripts/cluster-autoscaler.sh does that"


@contextlib.contextmanager
def provisioning_requests(lab: Kubernetes) -> Iterator[None]:
    """The cluster knows them meanwhile."""
    lab.kubectl("apply", "-f", str(CRD))
    lab.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRD))
    try:
        yield
    finally:
        lab.kubectl("delete", "-f", str(CRD), "--ignore-not-found")


class Autoscaler:
    """It runs until `close`. `nodes`: so many at most; `counted`: whose GPUs a device plugin counts."""

    def __init__(self, lab: Kubernetes, nodes: int, *, counted: bool = False) -> None:
        found = program()
        assert found is not None
        self._lab = lab
        plane = lab.control_plane
        config = {
            "apiVersion": "v1alpha1", "readNodesFrom": "configmap", "nodes": {"skipTaint": True},
            "nodegroups": {"fromNodeLabelKey": "pool"}, "configmap": {"name": "kwok-provider-templates"},
        }  # fmt: skip
        template = pool_node("template", counted=counted)
        template["metadata"]["annotations"]["cluster-autoscaler.kwok.nodegroup/max-count"] = str(nodes)
        templates = {"apiVersion": "v1", "kind": "List", "items": [template]}
        for name, key, value in (
            ("kwok-provider-config", "config", config),
            ("kwok-provider-templates", "templates", templates),
        ):
            data = {key: yaml.safe_dump(value)}
            lab.api.create(_PLACE, {"metadata": {"name": name}, "data": data})
        settings = [
            "POD_NAMESPACE=kube-system", "KWOK_PROVIDER_MODE=local", f"KUBECONFIG={plane.inner_kubeconfig}",
        ]  # fmt: skip
        argv = [
            "env", *settings, str(found), "--cloud-provider=kwok", f"--kubeconfig={plane.inner_kubeconfig}",
            "--enable-provisioning-requests", "--provisioning-request-initial-backoff-time=1s",
            "--provisioning-request-max-backoff-time=2s", "--scan-interval=1s", "--leader-elect=false",
            "--address=127.0.0.1:8085", "--scale-down-enabled=false", "--v=4",
        ]  # fmt: skip
        log = plane.folder / "cluster-autoscaler.log"
        self.daemon = Daemon("cluster-autoscaler", argv, log, within(plane.namespace, []))
        self.daemon.start()

    def close(self) -> None:
        self.daemon.kill()
        for name in ("kwok-provider-config", "kwok-provider-templates"):
            self._lab.api.delete(f"{_PLACE}/{name}")


def pool_node(name: str, *, counted: bool = False) -> dict[str, Any]:
    """A node of the pool, as the autoscaler makes them."""
    shape = simulated.NodeShape(name, counted={gpus.COUNTED: "8"} if counted else {})
    node = simulated.node_object(shape)
    node["metadata"]["annotations"][_GROUP] = POOL["pool"]
    node["metadata"]["labels"].update(POOL)
    node["spec"] = {"providerID": f"kwok:{name}"}
    return node


def nodes_of_pool(lab: Kubernetes) -> dict[str, str]:
    """Name → UID."""
    items = lab.api.get(f"{CORE}/nodes?labelSelector=pool={POOL['pool']}")["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in items}


def publish(lab: Kubernetes, name: str, uid: str) -> None:
    """What the driver of a new node says of its GPUs."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    found = simulated.slice_of(gpus.DRIVER, gpus.devices(name, 8), owner)
    lab.api.create(f"{RESOURCE}/resourceslices", found)
