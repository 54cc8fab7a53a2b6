"""Nothing that a pass does, nor what is asked about a cluster, is done for each pair of sessions or nodes."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from bai.cli.main import run
from bai.queries import models
from bai.queries.answers import answer
from bai.queries.view import WorkspaceView
from benchmarks.loop import Bench, session
from schemas.files import file_memory
from schemas.loading.loader import load_directory
from tests.harness.work import Count, instructions, instructions_per_pair, just_do

MOST = 0.2
"""Instructions for each pair: a loop over nodes for each session has some three for each of theirs."""
MOST_EACH = {
    "waits": {"pass_again": 180, "one_more": 1950, "settled": 1500},
    "runs": {"pass_again": 400, "one_more": 3300, "settled": 2000},
}
"""Instructions for each session more that waits, or runs: what a pass does for those whom nothing has
happened to."""
MOST_AFTER_A_CHANGE = 8500
"""The same, for a plan of a process that has only heard of what was planned before one file changed."""
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


@pytest.fixture(autouse=True, scope="module")
def settled_files() -> Iterator[None]:
    """Whether a file is read again does not depend on how much time goes by here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_memory, "SETTLED", -60.0)
        yield


def load(bench: Bench) -> None:
    load_directory(bench.folder)


def pass_again(bench: Bench) -> None:
    bench.once()


def one_more(bench: Bench) -> None:
    """Which has to wait: effects end when their threads come to it, and are written down together or not."""
    (bench.folder / "more.yaml").write_text(session("more", 8))
    bench.once()


def settled(bench: Bench) -> None:
    """The pass after that, which finds what has begun."""
    bench.once()


def node_lost(bench: Bench) -> None:
    bench.lose_a_node()


def question(query: models.Query) -> Step:
    return lambda bench: answer(WorkspaceView.of(bench.loop.workspace), query)


def explain_the_last(bench: Bench) -> object:
    last = len(bench.loop.workspace.desired().sessions()) - 1
    return question(models.ExplainQuery(session=f"s{last}"))(bench)


def plan_again(bench: Bench) -> None:
    """The command, with nothing in it that others have not had."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setenv("XDG_CACHE_HOME", str(bench.folder.parent / "cache"))
        words = ["--state", str(bench.folder.parent / "store.db"), "plan", "--offline"]
        assert run(["-C", str(bench.folder), *words]) == 0


def plan_after_a_change(bench: Bench) -> None:
    """Of one file, after all were read and planned before."""
    path = bench.folder / "sessions" / "0.yaml"
    path.write_text(path.read_text().replace("inf", "9s", 1))
    plan_again(bench)


STEPS: Mapping[str, Step] = {
    **{f"{each.command}-{each.form}": question(each) for each in QUERIES},
    **{each.__name__: each for each in (explain_the_last, load, pass_again, one_more, settled, node_lost)},
    **{each.__name__: each for each in (plan_again, plan_after_a_change)},
}
"""What changes the cluster comes last."""


def costs(
    steps: Mapping[str, Step], nodes: int, sessions: int, count: Count = instructions
) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), nodes, sessions, gpus=(4,))
        for _ in range(2):
            bench.once()
        found = {name: count(partial(step, bench)) for name, step in steps.items()}
        bench.loop.workspace.close()
    return found


@pytest.fixture(scope="module")
def counts(settled_files: None) -> Mapping[int, dict[str, int]]:
    """By number of sessions, what each step cost, all of them on one cluster after the other."""
    costs(STEPS, NODES, SESSIONS, just_do)
    return {
        size: costs(STEPS, NODES * size // SESSIONS, size) for size in (SESSIONS, 2 * SESSIONS, 4 * SESSIONS)
    }


@pytest.mark.parametrize("step", STEPS)
def test_with_sessions_and_nodes(step: str, counts: Mapping[int, dict[str, int]]) -> None:
    assert instructions_per_pair(lambda size: counts[size][step], SESSIONS) <= MOST


def test_with_sessions_that_wait() -> None:
    step = {"one_more": one_more}
    found = instructions_per_pair(lambda size: costs(step, NODES, size)["one_more"], SESSIONS)
    assert found <= MOST


@pytest.mark.parametrize("who", MOST_EACH)
def test_little_is_done_for_who_only_waits_or_runs(who: str) -> None:
    most = MOST_EACH[who]
    asked = {step: STEPS[step] for step in most}
    costs(asked, NODES, SESSIONS, just_do)
    sizes = (2 * SESSIONS, 4 * SESSIONS)
    few, many = (costs(asked, NODES if who == "waits" else size // 2, size) for size in sizes)
    each = {step: (many[step] - few[step]) / (2 * SESSIONS) for step in most}
    assert {step: cost for step, cost in each.items() if cost > most[step]} == {}


def test_little_is_done_for_who_only_waits_when_one_file_has_changed() -> None:
    asked = {each.__name__: each for each in (plan_again, plan_after_a_change)}
    costs(asked, NODES, SESSIONS, just_do)
    few, many = (
        costs(asked, NODES, size)[plan_after_a_change.__name__] for size in (2 * SESSIONS, 4 * SESSIONS)
    )
    assert many - few <= MOST_AFTER_A_CHANGE * 2 * SESSIONS
