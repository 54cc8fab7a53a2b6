"""No answer of the server is work for each pair of sessions or nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from bai.web.app import create_app
from bai.web.auth.roles import StaticAccess
from bai.web.cluster_loops import ClusterLoops
from benchmarks.loop import Bench
from schemas.files import file_memory
from tests.bai.web.lab import bearer, doors
from tests.harness.work import Count, instructions, instructions_per_pair, just_do

MOST = 0.2
"""Instructions for each pair: a loop over nodes for each session has some three for each of theirs."""
SESSIONS, NODES = 8, 2
"""Of the smallest cluster; half of the sessions have no place in it."""
CLUSTER = "/api/v1/clusters/here"
ANSWERS = (
    "/metrics",
    "/api/v1/clusters",
    CLUSTER,
    f"{CLUSTER}/resources",
    f"{CLUSTER}/resources?kind=Session",
    f"{CLUSTER}/resources/Session/p/s1",
    f"{CLUSTER}/queue",
    f"{CLUSTER}/plan",
    f"{CLUSTER}/events",
    f"{CLUSTER}/audit",
    f"{CLUSTER}/commands/get",
    f"{CLUSTER}/commands/status",
    f"{CLUSTER}/commands/nodes",
    f"{CLUSTER}/commands/capacity",
)


ASKED = [
    *((path, "viewer") for path in ANSWERS),
    *((path, "ours") for path in ANSWERS if path not in ("/metrics", f"{CLUSTER}/plan")),
]
"""By who sees all of it, and by who sees one project."""
Counts = dict[tuple[str, str], int]


@pytest.fixture(scope="module")
def counts() -> Mapping[int, Counts]:
    """By number of sessions, what each answer cost."""
    with pytest.MonkeyPatch.context() as patch:
        # Whether a file is read again does not depend on how much time goes by here.
        patch.setattr(file_memory, "SETTLED", -60.0)
        ask_all(SESSIONS, just_do)
        return {size: ask_all(size) for size in (SESSIONS, 2 * SESSIONS, 4 * SESSIONS)}


def ask_all(sessions: int, count: Count = instructions) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), NODES * sessions // SESSIONS, sessions, gpus=(4,))
        loops = ClusterLoops()
        loops.add(bench.loop)
        client = TestClient(create_app(loops, StaticAccess(doors())))
        for _ in range(3):
            bench.once()
        answered: list[int] = []

        def ask(path: str, who: str) -> None:
            answered.append(client.get(path, headers=bearer(who)).status_code)

        found = {asked: count(partial(ask, *asked)) for asked in ASKED}
        assert set(answered) == {200}
        bench.loop.workspace.close()
    return found


@pytest.mark.parametrize(("path", "who"), ASKED)
def test_answers(path: str, who: str, counts: Mapping[int, Counts]) -> None:
    assert instructions_per_pair(lambda size: counts[size][path, who], SESSIONS) <= MOST
