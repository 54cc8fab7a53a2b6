"""The manifest of permissions is enough for all that bai does, and has nothing that it does not use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from providers.autoscaling.values import NodeNeed, NodeRequest
from providers.base import File, KernelSpec, Mount, Network
from providers.kubernetes.api.access import kubeconfig_access
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import ApiRefusal
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.pods.create import create_pod
from providers.kubernetes.provider import KubernetesProvider
from providers.kubernetes.volumes.storage import KubernetesStorage
from providers.storage.base import TrashedVolume, TrashLocation, VolumeClaim, VolumeFolder
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from tests.lab.kubernetes.api import CORE, RBAC
from tests.lab.kubernetes.autoscaler import POOL, provisioning_requests
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.lab.kubernetes.kubernetes_lab import MANIFEST, permit
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.permissions import until_granted
from tests.lab.kubernetes.python_image import PYTHON, archive
from tests.lab.kubernetes.topologies import topologies, topology
from tests.providers.kubernetes.specs import script
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]
Right = tuple[str, str, str]
"""API group, resource and verb."""
_PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/v1(?:alpha[0-9])?(?:/namespaces/[^/]+)?/(?P<resource>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/?]+))?"
)
WATCHED = {("", "events", "watch"), ("", "persistentvolumeclaims", "watch")}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def right_of(method: str, path: str, query: Any) -> Right:
    """What the API server asks for where it is sent this."""
    found = _PATH.fullmatch(path)
    assert found, path
    resource = found["resource"] + (f"/{found['sub']}" if found["sub"] else "")
    verb = _VERBS.get(method, "")
    if not verb:
        watches = "watch" in (query or {})
        verb = "watch" if watches else "get" if found["name"] else "list"
    return found["group"] or "", resource, verb


class Recorded(ApiClient):
    """Writes down what is asked for."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig_access([kubeconfig]))
        self.used: set[Right] = set()

    def _send(self, method: str, path: str, query: Any, *args: Any, **more: Any) -> Any:
        self.used.add(right_of(method, path, query))
        return super()._send(method, path, query, *args, **more)


@pytest.fixture(scope="module")
def bai(kubernetes_lab: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """As the service account of the manifest."""
    kubernetes_lab.pair()
    config = yaml.safe_load(kubernetes_lab.kubeconfig.read_text())
    path = tmp_path_factory.mktemp("permissions") / "kubeconfig"
    with permit(kubernetes_lab):
        config["users"][0]["user"] = {"token": kubernetes_lab.token_of("bai", "bai")}
        path.write_text(yaml.safe_dump(config))
        client = Recorded(path)
        yield client
        client.close()


def granted(manifest: Path = MANIFEST) -> set[Right]:
    rules = [
        rule
        for document in yaml.safe_load_all(manifest.read_text())
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
    ]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def gang(number: int) -> KernelSpec:
    network = Network("overlay", name="bai-s-0-g1", aliases=(f"main{number}",))
    return script(
        "trap 'exit 0' TERM; sleep 1000000 & wait",
        f"s-main{number}-0-g1",
        network=network,
        files=(File("topology.xml", "<x/>", "TOPOLOGY"),),
        secret_env={"PASSWORD": "hush"},
        devices=(gpu_uuid("n0", number),),
        memory=16 * 2**20,
        cpu_milli=10,
    )


def cut_off(bai: Recorded, provider: KubernetesProvider, spec: KernelSpec) -> None:
    """A creation that ends before its pod is bound: the next one has to look at what there is."""

    def fence() -> None:
        raise TimeoutError

    with pytest.raises(ProviderUnavailable):
        create_pod(bai, provider.options, PodRef("bai", spec.id), spec, provider.observer, fence)


def look_after_a_volume(bai: Recorded, provider: KubernetesProvider) -> None:
    """Made, waited for, deleted, brought back and deleted for good."""
    claim = VolumeClaim("bai", "data-0", ("ReadWriteOnce",), 2**20, "none-such")
    folder = VolumeFolder("Volume/p/data", "", "", "", host="claims", namespace="bai", claim=claim)
    storage = KubernetesStorage(lambda: bai)
    storage.make(folder)
    assert storage.observe([folder])["Volume/p/data"].why == "its claim is Pending"
    waits = "s-waits-0-g1"
    provider.create(script("true", waits, mounts=(Mount("/", "/data", root="/", claim="data-0"),)))

    def said() -> str:
        return next(one.reason for one in provider.observe().kernels if one.id == waits)

    until(lambda: "none-such" in said(), lambda: f"it says what it waits for: {said()}")
    until(lambda: said() and bai.used >= WATCHED, "claims and events are watched")
    provider.remove(waits)
    trash = TrashLocation("claims", "", "", namespaces=("bai",))
    storage.trash(folder, TrashedVolume("Volume/p/data", "e", "claims", "bai/data-0", 1.0))
    storage.restore(trash, "e")
    storage.trash(folder, TrashedVolume("Volume/p/data", "e", "claims", "bai/data-0", 1.0))
    storage.purge(trash, "e")


def share_a_gpu(provider: KubernetesProvider) -> None:
    """Two begin on one GPU, and end."""
    shared = gpu_uuid("n0", 5)
    kernels = [
        script("true", f"part{number}-main1-0-g1", devices=(shared,), parts=(shared,)) for number in (1, 2)
    ]
    for spec in kernels:
        provider.create(spec)
    for spec in kernels:
        provider.remove(spec.id)


def look_closer(lab: Kubernetes, provider: KubernetesProvider) -> None:
    """At a node by a pod, and at what others have found out of one."""
    for node in lab.pair():
        node.take(archive())
    found, failed = provider.probe(frozenset({"n0"}), PYTHON)
    assert found and not failed
    (simulated,) = lab.kwok(1, cores=True)
    with topologies(lab, topology(simulated, [("48", "768Gi"), ("48", "256Gi")])):
        found, _ = provider.hardware(frozenset({simulated}))
    assert [numa.memory >> 30 for numa in found[simulated].numa_nodes] == [768, 256]


def test_the_permissions_of_the_manifest_suffice_and_are_used(
    bai: Recorded, kubernetes: Kubernetes, capfd: pytest.CaptureFixture[str]
) -> None:
    look_closer(kubernetes, KubernetesProvider(bai, Options(namespace="bai")))
    provider = KubernetesProvider(bai, Options(namespace="bai"))
    cut_off(bai, provider, gang(1))
    for number in (1, 2):
        provider.create(gang(number))
    kernels = ("s-main1-0-g1", "s-main2-0-g1")
    until(lambda: {one.state for one in provider.observe().kernels} == {"running"}, "both run")
    first = kernels[0]
    assert provider.execute(first, ("echo", "seen")) == 0
    assert "seen" in capfd.readouterr().out
    assert list(provider.logs(first)) == []
    assert b"".join(provider.copy_out(first, "/etc/passwd"))
    provider.update(first, gang(1))
    look_after_a_volume(bai, provider)
    share_a_gpu(provider)
    assert provider.stop(first, grace=0).state == "exited"
    for kernel in kernels:
        provider.remove(kernel)
    assert provider.observe().kernels == ()
    ways = ("exec", "attach", "portforward")
    sockets = {("", f"pods/{way}", verb) for way in ways for verb in ("get", "create")}
    seen = bai.used | {("resource.k8s.io", "resourceclaims/binding", "update")} | sockets
    assert granted() - seen == set(), "nobody uses it"


def test_the_permissions_to_ask_for_nodes_suffice_and_are_used(bai: Recorded, kubernetes: Kubernetes) -> None:
    pools = {"all": {"nodeSelector": POOL}}
    options = Options.model_validate({"namespace": "bai", "provisioningRequests": pools})
    need = NodeNeed(1000, 2**20, (("cuda.device", 1),))
    selector = tuple(POOL.items())
    wanted = NodeRequest("repo", "lab", "Session/p/s", "bai", (need, need), selector)
    manifest = MANIFEST.with_name("node-requests.yaml")
    with provisioning_requests(kubernetes):
        provider, plain = (KubernetesProvider(each, options) for each in (bai, ApiClient(bai.access)))
        asks = provider.observe().node_asks
        assert asks is not None and manifest.name in asks.why_not
        with pytest.raises(ProviderError, match="forbidden"):
            provider.ask_for_nodes(wanted)
        checks = {each.name: each for each in plain.check_setup()}
        assert "create podtemplates in bai" in checks["node requests"].text
        kubernetes.kubectl("apply", "-f", str(manifest))
        until_granted(kubernetes.api, manifest)
        bai.used.clear()
        try:
            checks = {each.name: each for each in plain.check_setup()}
            assert not checks["node requests"].failed
            provider.ask_for_nodes(wanted)
            until(lambda: _asked(provider, wanted) == "new", "it is seen")
            until(lambda: granted(manifest) - bai.used == DELETING, "both are watched")
            found = provider.observe().node_asks
            assert found is not None
            provider.withdraw_request(found.requests[wanted.key])
            until(lambda: _asked(provider, wanted) == "", "it is gone")
            assert granted(manifest) - bai.used == set(), "nobody uses it"
        finally:
            kubernetes.kubectl("delete", "-f", str(manifest), "--ignore-not-found")


DELETING = {("", "podtemplates", "delete"), ("autoscaling.x-k8s.io", "provisioningrequests", "delete")}


def _asked(provider: KubernetesProvider, wanted: NodeRequest) -> str:
    asks = provider.observe().node_asks
    found = asks.requests.get(wanted.key) if asks is not None else None
    return found.state if found is not None else ""


def test_it_may_do_nothing_elsewhere(bai: Recorded) -> None:
    provider = KubernetesProvider(bai, Options(namespace="default"))
    with pytest.raises(ProviderError, match="forbidden"):
        provider.create(gang(1))
    for path in (f"{CORE}/namespaces/default/secrets", f"{CORE}/secrets", f"{RBAC}/clusterroles"):
        with pytest.raises(ApiRefusal) as refused:
            bai.list(path)
        assert refused.value.status == 403
