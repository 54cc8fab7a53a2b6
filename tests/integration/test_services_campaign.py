"""A service of four replicas that is updated again and again while clients ask it, with everything in between
that people and machines do: nodes are drained, `bai serve`, Caddy, replicas and nodes' engines are killed.

`BAI_UPDATES`: how many updates (7).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.service_grounds import service_ground
from tests.integration.service_incidents import ON_ONE_NODE, ON_SEVERAL_NODES, Time, updated
from tests.integration.service_lab import ServiceLab, service_lab

pytestmark = pytest.mark.campaign
UPDATES = int(os.environ.get("BAI_UPDATES", "7"))
REPLICAS = 4
INCIDENTS = {"process": ON_ONE_NODE, "docker": ON_SEVERAL_NODES}


@pytest.fixture
def lab(where: str, tmp_path: Path) -> Iterator[ServiceLab]:
    with service_ground(where, tmp_path) as ground, service_lab(ground, REPLICAS) as made:
        yield made


@pytest.mark.parametrize("where", list(INCIDENTS))
def test_updates_drains_and_kills_under_load(lab: ServiceLab, where: str) -> None:
    begun, down, incidents = time.monotonic(), list[Time](), INCIDENTS[where]
    with lab.load() as load:
        for number in range(UPDATES):
            down += updated(lab, load, f"v{number + 2}", incidents[number % len(incidents)])
            assert load.problems(begun, down) == []
    failed = load.problems(begun)
    assert not [each for each in failed if "status 4" in each.problem], (
        "nobody hears that there is no such app"
    )
    seconds = sum(end - start for start, end in down)
    print(f"{len(load.outcomes)} requests, {len(failed)} failed, in {len(down)} kills and {seconds:.1f} s")
