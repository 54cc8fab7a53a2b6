"""Applies that are killed while sessions get GPUs that a device plugin counts."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integration.killing import killed_anywhere
from tests.integration.kubernetes_documents import cluster_documents
from tests.integration.test_kubernetes_kill_apply import DOMAIN, Cluster
from tests.lab.kubernetes.gpus import COUNTED
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.node import NodeOptions
from tests.waiting import soon

pytestmark = [pytest.mark.xdist_group("kubernetes-lost"), pytest.mark.slow]
KILLS = int(os.environ.get("BAI_KUBERNETES_COUNTED_KILLS", "3"))
SEED = int(os.environ.get("BAI_KILL_SEED", "1"))
NODE, GPUS = "n6", 16


class Counted(Cluster):
    """On a node whose GPUs have no claims."""

    def numbers(self) -> Counter[str]:
        """GPU by its number → how many pods have it, by their labels, which are what plans go by."""
        found: Counter[str] = Counter()
        for pod in self.pods():
            labels = json.loads(pod["metadata"]["annotations"]["bai.dev/labels"])
            devices = [each["id"] for each in json.loads(labels["placement"])["devices"]]
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            assert len(devices) == int(limits[COUNTED])
            found.update(devices)
        return found


@pytest.fixture(scope="module")
def cluster(kubernetes_lab: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    kubernetes_lab.node(NODE, NodeOptions(gpus=0, counted=GPUS))
    with kubernetes_lab.namespace() as namespace:
        made = Counted(tmp_path_factory.mktemp("kill") / "repository", kubernetes_lab, namespace)
        documents = cluster_documents(namespace, [NODE], project="domain: d") + DOMAIN
        (made.directory / "lab.yaml").write_text(documents)
        try:
            yield made
        finally:
            made.close()


def test_killed_anywhere_no_number_is_given_twice(cluster: Counted) -> None:
    killed_anywhere(cluster, random.Random(SEED), KILLS)
    numbers = cluster.numbers()
    assert max(numbers.values(), default=0) <= 1 and len(numbers) == len(cluster.pods())


def test_in_the_end_nothing_is_left(cluster: Counted) -> None:
    cluster.want({})
    assert not cluster.apply()["error"]
    assert cluster.apply()["changes"] == 0
    assert cluster.pods() == []
    assert soon(lambda: not cluster.left()), cluster.left()
