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
from tests.harness.work import Count, instructions, just_do, per_pair

MOST = 0.2
"""Instructions for each pair: a loop over nodes for each session has some three for each of theirs."""
MOST_EACH = {
    "waits": {"pass_again": 180, "one_more": 1950, "settled": 750},
    "runs": {"pass_again": 420, "one_more": 3300, "settled": 1050},
}
"""Instructions for each session more that waits, or runs: what a pass does for those whom nothing has
happened to."""
MOST_AFTER_A_CHANGE = 8500
"""The same, for a plan of a process that has only heard of what was planned before one file changed."""
SIZES = (40, 50, 60)
"""Sessions of three clusters. In the smallest one all that is listed is longer than what is told of it."""
PER_NODE = 5
"""Sessions for each node: more than half of them have no place."""
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
def imported(settled_files: None) -> None:
    """What is only done the first time does not count."""
    costs(STEPS, 2, 4, just_do)


@pytest.fixture(scope="module")
def counts(imported: None) -> Mapping[int, dict[str, int]]:
    """By number of sessions, what each step cost, all of them on one cluster after the other."""
    return {size: costs(STEPS, size // PER_NODE, size) for size in SIZES}


@pytest.fixture(scope="module")
def waiting_counts(imported: None) -> Mapping[int, dict[str, int]]:
    """The same for sessions that nearly all wait: there are no more nodes where there are more sessions."""
    asked = {name: STEPS[name] for name in (*MOST_EACH["waits"], "plan_again", "plan_after_a_change")}
    return {size: costs(asked, SIZES[0] // PER_NODE, size) for size in SIZES}


@pytest.mark.parametrize("step", STEPS)
def test_with_sessions_and_nodes(step: str, counts: Mapping[int, dict[str, int]]) -> None:
    assert per_pair({size: found[step] for size, found in counts.items()}) <= MOST


def test_with_sessions_that_wait(waiting_counts: Mapping[int, dict[str, int]]) -> None:
    assert per_pair({size: found["one_more"] for size, found in waiting_counts.items()}) <= MOST


def for_each(counts: Mapping[int, Mapping[str, int]], step: str) -> float:
    """What a step costs for each session more."""
    few, many = min(counts), max(counts)
    return (counts[many][step] - counts[few][step]) / (many - few)


def test_little_is_done_for_who_only_waits(waiting_counts: Mapping[int, dict[str, int]]) -> None:
    each = {step: for_each(waiting_counts, step) for step in MOST_EACH["waits"]}
    assert {step: cost for step, cost in each.items() if cost > MOST_EACH["waits"][step]} == {}


def test_little_is_done_for_who_only_runs(imported: None) -> None:
    most = MOST_EACH["runs"]
    asked = {step: STEPS[step] for step in most}
    counts = {size: costs(asked, size // 2, size) for size in (SIZES[0], SIZES[-1])}
    each = {step: for_each(counts, step) for step in most}
    assert {step: cost for step, cost in each.items() if cost > most[step]} == {}


def test_little_is_done_for_who_only_waits_when_one_file_has_changed(
    waiting_counts: Mapping[int, dict[str, int]],
) -> None:
    assert for_each(waiting_counts, plan_after_a_change.__name__) <= MOST_AFTER_A_CHANGE
