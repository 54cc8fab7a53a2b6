"""Fixtures that tests of every package may ask for, and what all property tests have in common."""

import pytest
from hypothesis import HealthCheck, settings

from tests.lab.browser import chromium
from tests.lab.compiled_statements import compiled_once
from tests.lab.cosign import cosign
from tests.lab.docker import engines
from tests.lab.fixtures import vm
from tests.lab.gitea import gitea
from tests.lab.helm import helm
from tests.lab.keycloak import keycloak
from tests.lab.kubernetes.fixtures import kube_namespace, kubernetes, kubernetes_clusters, kubernetes_lab
from tests.lab.nspawn import nodes, nodes_lab
from tests.lab.postgres import postgres, postgres_lab
from tests.lab.registry import registry
from tests.lab.sops import sops
from tests.lab.sshd import sshd_lab, sshd_nodes

pytest_plugins = [
    "tests.harness.examples",
    "tests.harness.garbage",
    "tests.harness.isolation",
    "tests.harness.order",
    "tests.harness.times",
]
__all__ = [
    "chromium",
    "compiled_once",
    "cosign",
    "engines",
    "gitea",
    "helm",
    "keycloak",
    "kube_namespace",
    "kubernetes",
    "kubernetes_clusters",
    "kubernetes_lab",
    "nodes",
    "nodes_lab",
    "postgres",
    "postgres_lab",
    "registry",
    "sops",
    "sshd_lab",
    "sshd_nodes",
    "vm",
]

# A loaded machine is slow, not wrong.
settings.register_profile("bai", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bai")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of one group share engines and look at the same folders: they must not run at the same time."""
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
            raise pytest.UsageError(f"pytest-xdist does not keep groups together here: {item.nodeid}")
