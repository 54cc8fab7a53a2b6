"""Nothing that a pass does, nor what is asked about a cluster, is done for each pair of sessions or nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bai.queries import models
from bai.queries.answers import answer
from bai.queries.view import WorkspaceView
from benchmarks.loop import Bench, session
from schemas.files import file_memory
from schemas.loading.loader import load_directory
from tests.harness.work import instructions, instructions_per_pair

MOST = 0.2
"""Instructions for each pair: a loop over nodes for each session has some three for each of theirs."""
SESSIONS, NODES = 32, 8
"""Of the smallest cluster; half of the sessions have no place in it."""
QUERIES = (
    models.GetQuery(kind="Session", form="wide"),
    models.StatusQuery(),
    models.CapacityQuery(),
    models.NodesQuery(),
    models.DescribeQuery(resource="Node/dgx-0001"),
)
Step = Callable[[Bench], object]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a file is read again does not depend on how much time goes by here."""
    monkeypatch.setattr(file_memory, "SETTLED", -60.0)


def load(bench: Bench) -> None:
    load_directory(bench.folder)


def pass_again(bench: Bench) -> None:
    bench.once()


def one_more(bench: Bench) -> None:
    """Which has to wait: effects end when their threads come to it, and are written down together or not."""
    (bench.folder / "more.yaml").write_text(session("more", 8))
    bench.once()


def node_lost(bench: Bench) -> None:
    bench.lose_a_node()


def question(query: models.Query) -> Step:
    return lambda bench: answer(WorkspaceView.of(bench.loop.workspace), query)


def explain_the_last(bench: Bench) -> object:
    last = len(bench.loop.workspace.desired().sessions()) - 1
    return question(models.ExplainQuery(session=f"s{last}"))(bench)


def cost(step: Step, nodes: int, sessions: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), nodes, sessions, gpus=(4,))
        for _ in range(2):
            bench.once()
        found = instructions(lambda: step(bench))
        bench.loop.workspace.close()
    return found


@pytest.mark.parametrize(
    "step", [load, pass_again, one_more, node_lost, explain_the_last], ids=lambda each: each.__name__
)
def test_with_sessions_and_nodes(step: Step) -> None:
    found = instructions_per_pair(lambda size: cost(step, NODES * size // SESSIONS, size), SESSIONS)
    assert found <= MOST


def test_with_sessions_that_wait() -> None:
    assert instructions_per_pair(lambda size: cost(one_more, NODES, size), SESSIONS) <= MOST


@pytest.mark.parametrize("query", QUERIES, ids=lambda each: f"{each.command}-{each.form}")
def test_questions(query: models.Query) -> None:
    step = question(query)
    found = instructions_per_pair(lambda size: cost(step, NODES * size // SESSIONS, size), SESSIONS)
    assert found <= MOST
