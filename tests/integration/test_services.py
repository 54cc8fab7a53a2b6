"""A service of three native replicas behind `bai serve` and Caddy while clients ask it all the time: updates,
a replica that is killed, a generation that never gets ready, and a rollout that is taken back.

No request fails but those under way at a replica when it is killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.integration.service_grounds import ProcessGround
from tests.integration.service_lab import ServiceLab, service_lab
from tests.integration.service_load import REPEATED, Load
from tests.waiting import until

pytestmark = pytest.mark.slow
REPLICAS = 3


@pytest.fixture(scope="module")
def lab() -> Iterator[ServiceLab]:
    with service_lab(ProcessGround(), REPLICAS) as made:
        yield made


def only_answers_of(load: Load, version: str) -> None:
    since = time.monotonic()
    load.until_asked()
    assert set(load.answered_by(since)) == {version}


def test_updates_in_a_row_lose_no_request(lab: ServiceLab) -> None:
    begun = time.monotonic()
    with lab.load() as load:
        for version in ("v2", "v3"):
            lab.write(version)
            lab.until_complete(version)
            only_answers_of(load, version)
    assert load.problems(begun) == []
    assert set(load.answered_by(begun)) == {"v1", "v2", "v3"}
    assert lab.lives.least(begun) == REPLICAS


def test_of_a_replica_that_is_killed_only_what_is_under_way_fails(lab: ServiceLab) -> None:
    """It takes no more connections from then on, and is back by itself."""
    begun = time.monotonic()
    with lab.load() as load:
        load.until_asked()
        (version,) = lab.lives.versions()
        killed = lab.lives.kill(lab.lives.serving()[0])
        lab.until_complete(version)
        load.until_asked()
    failed = load.problems(begun)
    assert load.problems(begun, [killed]) == []
    assert not [each for each in failed if each.kind in REPEATED], failed
    assert len(failed) <= 6


def test_a_generation_that_never_gets_ready_makes_way_without_a_lost_request(lab: ServiceLab) -> None:
    begun = time.monotonic()
    (version,) = lab.lives.versions()
    with lab.load() as load:
        lab.write("bad", broken=True, deadline="2s")
        lab.until(lab.has_failed, "it is given up")
        lab.until_complete(version)
        only_answers_of(load, version)
    assert load.problems(begun) == []
    assert set(load.answered_by(begun)) == {version}
    assert lab.lives.least(begun) == REPLICAS


def test_a_rollout_is_taken_back_without_a_lost_request(lab: ServiceLab) -> None:
    begun = time.monotonic()
    (before,) = lab.lives.versions()
    with lab.load() as load:
        lab.write("v4")
        until(lambda: load.answered_by(begun)["v4"], "the new generation answers")
        lab.repo.ok("rollout", "undo", "service/web")
        lab.until_complete(before)
        only_answers_of(load, before)
    assert load.problems(begun) == []
    assert lab.lives.least(begun) == REPLICAS
