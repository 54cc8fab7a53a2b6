"""A Kubernetes cluster keeps the promises of every provider."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from providers.conformance.harness import ProviderHarness
from providers.conformance.suite import ProviderConformance
from providers.machines.base import Endpoint
from providers.registry import open_provider
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.lab import Kubernetes
from tests.providers.kubernetes.conftest import Cluster
from tests.providers.kubernetes.specs import UID


class KubernetesHarness(ProviderHarness):
    """Two nodes; the way to all of them is the API server, which can be stopped."""

    nodes = ("n0", "n1")
    kills = 4
    hears_out = False
    fields = {"image": IMAGE, "uid": UID}  # noqa: RUF012

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        machines = [Endpoint(name, name) for name in self.nodes]
        options = {"namespace": cluster.namespace}
        self.open = partial(open_provider, "kubernetes", options, machines=machines)

    def left(self, kernel_id: str) -> Sequence[str]:
        return [each for each in self._cluster.left() if kernel_id in each]

    @contextlib.contextmanager
    def cut(self, node: str) -> Iterator[None]:
        self._cluster.lab.control_plane.stop_api_server()
        yield
        self._cluster.lab.mend()


@pytest.fixture(scope="class")
def harness(kubernetes_lab: Kubernetes, home: str) -> Iterator[ProviderHarness]:
    kubernetes_lab.pair()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubernetes_lab.kubeconfig))
        yield KubernetesHarness(Cluster(kubernetes_lab, home))


@pytest.mark.xdist_group("kubernetes")
class TestConformance(ProviderConformance):
    """All of them."""
