"""A service of four native replicas that is updated again and again while clients ask it, with everything in
between that people and machines do: the only node is drained, `bai serve` and Caddy are killed.

`BAI_UPDATES`: how many updates (5).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.service_lab import ServiceLab, kill_process, service_lab
from tests.integration.service_load import Load
from tests.waiting import until

pytestmark = pytest.mark.campaign
UPDATES = int(os.environ.get("BAI_UPDATES", "5"))
REPLICAS = 4
Time = tuple[float, float]


@pytest.fixture
def lab() -> Iterator[ServiceLab]:
    with (
        tempfile.TemporaryDirectory(prefix="bai-t-") as name,
        service_lab(Path(name), REPLICAS) as made,
    ):
        yield made


def server_killed(lab: ServiceLab, load: Load) -> Time:
    """Nobody listens until the next one has begun; gives that time."""
    begun = lab.kill()
    lab.serve()
    return begun, until_answered(lab, load)


def caddy_killed(lab: ServiceLab, load: Load) -> Time:
    """bai begins another one, and holds the socket meanwhile: who comes then waits. Gives the time in which
    it ended."""
    pid = lab.caddy()
    assert pid is not None
    killed = kill_process(pid)
    lab.until(lambda: lab.caddy() not in (None, pid), "there is another Caddy")
    until_answered(lab, load)
    return killed


def until_answered(lab: ServiceLab, load: Load) -> float:
    """Gives the moment before the first request that was answered then."""
    since = time.monotonic()
    lab.until(lambda: load.answered_by(since), "somebody answers")
    return min(each.ended for each in load.since(since) if not each.problem)


def drained_meanwhile(lab: ServiceLab, load: Load) -> None:
    """There is nowhere else to go: everybody stays, and is asked."""
    lab.drain(True)
    lab.until(lambda: _leaving(lab), "replicas are to leave")
    load.until_asked(100)
    lab.drain(False)


def _leaving(lab: ServiceLab) -> bool:
    return any("drained" in each["why"] for each in lab.service()["replicas"])


def test_updates_drains_and_kills_under_load(lab: ServiceLab) -> None:
    begun, down = time.monotonic(), list[Time]()
    with ExitStack() as stack:
        load = stack.enter_context(lab.load())
        for number in range(UPDATES):
            version = f"v{number + 2}"
            lab.write(version)
            until(lambda version=version: load.answered_by(begun)[version], f"{version} answers")
            if number % 3 == 0:
                drained_meanwhile(lab, load)
            elif number % 3 == 1:
                down.append(server_killed(lab, load))
            else:
                down.append(caddy_killed(lab, load))
            lab.until_complete(version)
            since = time.monotonic()
            load.until_asked()
            assert set(load.answered_by(since)) == {version}
            assert load.problems(begun, down) == []
    failed = load.problems(begun)
    assert not [each for each in failed if "status 4" in each.problem], (
        "nobody hears that there is no such app"
    )
    seconds = sum(end - start for start, end in down)
    print(f"{len(load.outcomes)} requests, {len(failed)} failed, in {len(down)} kills and {seconds:.1f} s")
    assert lab.lives.least(begun) == REPLICAS
