"""The cluster as pytest fixtures: one for all tests of a group in a worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.harness.labs import at_the_end_of
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.needs import why_not
from tests.lab.lent import lent


class _Clusters:
    """The one that is up, if any: a worker may come to the tests of several groups, one after the other."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._up: Kubernetes | None = None
        self._groups: set[str] = set()

    def up(self, group: str = "") -> Kubernetes:
        """It goes when the tests of this group are over, or with the last test."""
        if self._up is None:
            lending = contextlib.contextmanager(lent)("kubernetes", Kubernetes, why_not())
            self._up = self._stack.enter_context(lending)
        if group and group not in self._groups:
            self._groups.add(group)
            at_the_end_of(group, self.close)
        return self._up

    def close(self) -> None:
        self._up = None
        self._groups.clear()
        self._stack.close()


@pytest.fixture(scope="session")
def kubernetes_clusters() -> Iterator[_Clusters]:
    with contextlib.closing(_Clusters()) as clusters:
        yield clusters


@pytest.fixture(scope="module")
def kubernetes_lab(kubernetes_clusters: _Clusters) -> Kubernetes:
    return kubernetes_clusters.up()


@pytest.fixture
def kubernetes(kubernetes_clusters: _Clusters, request: pytest.FixtureRequest) -> Iterator[Kubernetes]:
    """A cluster with the nodes that tests before have asked for, and no simulated ones. Mark such tests
    `@pytest.mark.xdist_group("kubernetes")`, or another group that begins so."""
    mark = request.node.get_closest_marker("xdist_group")
    lab = kubernetes_clusters.up(mark.args[0] if mark is not None else "")
    lab.mend()
    yield lab
    lab.mend()
    lab.kwok(0)


@pytest.fixture
def kube_namespace(kubernetes: Kubernetes) -> Iterator[str]:
    """A namespace of the test's own, which goes with all that is in it."""
    with kubernetes.namespace() as name:
        yield name
