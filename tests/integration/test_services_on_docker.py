"""A service on several Docker nodes behind `bai serve` and Caddy while clients ask it.

It is updated meanwhile, and nodes are drained and given back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.service_grounds import service_ground
from tests.integration.service_incidents import docker_of, node_drained, updated
from tests.integration.service_lab import ServiceLab, service_lab

pytestmark = pytest.mark.slow
REPLICAS = 3


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ServiceLab]:
    with service_ground("docker", tmp_path) as ground, service_lab(ground, REPLICAS) as made:
        yield made


def test_an_update_and_drains_lose_no_request(lab: ServiceLab) -> None:
    assert [len(each) for each in docker_of(lab).replicas_on().values()] == [1, 1, 1]
    begun = time.monotonic()
    with lab.load() as load:
        updated(lab, load, "v2", node_drained)
    assert load.problems(begun) == []
    assert set(load.answered_by(begun)) == {"v1", "v2"}
