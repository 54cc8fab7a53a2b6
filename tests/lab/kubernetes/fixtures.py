"""The cluster as pytest fixtures: one for all tests of the group `kubernetes` in a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.labs import at_the_end_of
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.needs import why_not
from tests.lab.lent import lent

GROUP = "kubernetes"


@pytest.fixture(scope="session")
def kubernetes_lab() -> Iterator[Kubernetes]:
    for lab in lent(GROUP, Kubernetes, why_not()):
        at_the_end_of(GROUP, lab.close)
        yield lab


@pytest.fixture
def kubernetes(kubernetes_lab: Kubernetes) -> Iterator[Kubernetes]:
    """A cluster with the nodes that tests before have asked for, and no simulated ones. Mark such tests
    `@pytest.mark.xdist_group("kubernetes")`."""
    kubernetes_lab.mend()
    yield kubernetes_lab
    kubernetes_lab.mend()
    kubernetes_lab.kwok(0)


@pytest.fixture
def kube_namespace(kubernetes: Kubernetes) -> Iterator[str]:
    """A namespace of the test's own, which goes with all that is in it."""
    with kubernetes.namespace() as name:
        yield name
