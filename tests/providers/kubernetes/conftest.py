"""The provider on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from providers.base import ForeignUse, Observed
from providers.kubernetes.api.access import kubeconfig_access
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.objects.names import namespaced
from providers.kubernetes.provider import KubernetesProvider
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from tests.lab.kubernetes.lab import Kubernetes
from tests.providers.kubernetes.specs import ID
from tests.waiting import until

_KINDS = ("pods", "resourceclaims", "secrets", "configmaps", "services")


@dataclass
class Cluster:
    """Nodes of the lab, and a namespace of the test's own."""

    lab: Kubernetes
    namespace: str
    nodes: tuple[str, ...] = ()
    """That the repository gives; empty: all of the cluster."""
    opened: list[KubernetesProvider] = field(default_factory=list)

    def client(self) -> ApiClient:
        return ApiClient(kubeconfig_access([self.lab.kubeconfig]))

    def open(self, client: ApiClient | None = None, **options: Any) -> KubernetesProvider:
        """Another one, as after a restart of bai."""
        chosen = Options.model_validate({"namespace": self.namespace, **options})
        self.opened.append(KubernetesProvider(client or self.client(), chosen, self.nodes))
        return self.opened[-1]

    def use(self, provider: KubernetesProvider, node: str) -> ForeignUse:
        """What others use of a node, as it is now."""
        found = provider.observe()
        assert found.complete and node not in found.unreachable
        return next((use for use in found.foreign if use.node == node), ForeignUse(node, ""))

    def simulated(self) -> str:
        """A node that says that everything runs at once: for what the API server alone decides."""
        return self.lab.kwok(1)[0]

    def path(self, kind: str, name: str = "") -> str:
        return f"{namespaced(kind, self.namespace)}/{name}".rstrip("/")

    def get(self, kind: str, name: str) -> Any:
        """An object of the namespace; None when there is none."""
        return self.lab.api.find(self.path(kind, name))

    def claims(self, name: str = ID) -> list[Any]:
        """Of a kernel of bai's, the first one first."""
        query = f"?labelSelector=bai.dev/kernel={name}"
        found = self.lab.api.get(f"{self.path('resourceclaims')}{query}")["items"]
        return sorted(found, key=lambda claim: str(claim["metadata"]["name"]))

    def left(self) -> list[str]:
        """What of bai's is in the namespace."""
        query = "?labelSelector=app.kubernetes.io/managed-by=bai"
        return [
            f"{kind}/{each['metadata']['name']}"
            for kind in _KINDS
            for each in self.lab.api.get(f"{self.path(kind)}{query}")["items"]
        ]

    def is_empty(self) -> None:
        """What the cluster's garbage collector takes goes a moment later."""
        until(lambda: not self.left(), lambda: f"nothing is left: {self.left()}", pause=0.2)

    def log(self, name: str) -> str:
        return self.lab.log(self.namespace, name)


def seen(provider: KubernetesProvider, name: str = ID) -> Observed | None:
    return next((each for each in provider.observe().kernels if each.id == name), None)


def once(provider: KubernetesProvider, state: str, name: str = ID) -> Observed:
    """The kernel as soon as it is in this state."""

    def there() -> Observed | None:
        found = seen(provider, name)
        return found if found is not None and found.state == state else None

    return until(there, lambda: f"{name} is {state}: {seen(provider, name)}", pause=0.2)


@pytest.fixture(scope="module")
def home(kubernetes_lab: Kubernetes) -> Iterator[str]:
    """A namespace of the module's tests: one that goes takes its time."""
    kubernetes_lab.mend()
    with kubernetes_lab.namespace() as name:
        yield name


@pytest.fixture
def cluster(kubernetes: Kubernetes, home: str) -> Iterator[Cluster]:
    """Its namespace is empty again afterwards."""
    found = Cluster(kubernetes, home)
    yield found
    for provider in found.opened:
        provider.close()
    kubernetes.mend()
    kubernetes.api.call("DELETE", f"{found.path('pods')}?gracePeriodSeconds=1")
    found.is_empty()
    until(lambda: not kubernetes.api.get(found.path("pods"))["items"], "its pods are gone", pause=0.2)


@pytest.fixture
def pair(cluster: Cluster) -> Cluster:
    """The same, with two real nodes."""
    cluster.lab.pair()
    return cluster
