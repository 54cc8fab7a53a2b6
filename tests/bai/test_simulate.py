"""`bai simulate`: traces in, a comparison and a picture out, and clear words for what cannot be read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bai.render.analysis.chart import time_ticks, value_ticks
from bai.traces.load import read_trace
from bai.traces.policies import policy_trials
from planner.model.types import GroupInfo
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.repository import InvalidRepository
from schemas.repository.repository import Repository
from tests.bai.conftest import Repo

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "examples" / "traces"
DGX = ROOT / "examples" / "clusters" / "dgx-h100"
KNOWN = {"queue": ["drf", "fifo"], "selection": ["concentrated", "dispersed"]}


@pytest.fixture
def here(tmp_path: Path) -> Repo:
    """The command where there is no repository of its own."""
    return Repo(tmp_path, {"BAI_STATE": str(tmp_path / "state.db")})


@pytest.mark.slow
def test_the_picture_in_the_docs_is_what_its_command_draws(here: Repo) -> None:
    page = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
    command = re.search(r"\$ bai (simulate .*?)--svg", page, re.DOTALL)
    assert command is not None
    words = command[1].replace("\\\n", " ").replace("examples/", f"{ROOT}/examples/").split()
    picture = here.root / "team.svg"
    here.ok(*words, "--svg", str(picture))
    fresh = picture.read_bytes() == (ROOT / "docs" / "simulate.svg").read_bytes()
    assert fresh, f"draw docs/simulate.svg again: bai {' '.join(words)} --svg docs/simulate.svg"


def test_policies_side_by_side(here: Repo) -> None:
    picture = here.root / "curves.svg"
    words = ("--trace", str(TRACES / "small.yaml"), "--queue", "fifo:maxSkips=0,fifo:maxSkips=0:backfill")
    said = here.ok("-C", str(DGX), "simulate", *words, "--svg", str(picture), "--format", "json").json
    assert said["version"] == "bai.simulation/v1"
    strict, backfill = said["policies"]
    assert (strict["policy"], backfill["policy"]) == ("fifo:maxSkips=0", "fifo:maxSkips=0:backfill")
    assert strict["finished"] == backfill["finished"] == 4
    # The gang holds ten of sixteen nodes for 6 h, the next wants eight: strictly, finetune waits for both.
    assert strict["waitsBySize"]["2 GPUs"]["mean"] == 5 * 3600
    assert backfill["waitsBySize"]["2 GPUs"]["mean"] == 0
    assert backfill["waitsBySize"]["no devices"]["mean"] == 2 * 3600  # it needs finetune to have finished
    assert strict["deviceHours"] == backfill["deviceHours"] == 80 * 6 + 64 * 4 + 2 * 2
    assert strict["locality"]["onAsFewAsPossible"] == 4
    lines = (
        ElementTree.parse(picture).getroot().findall(".//{http://www.w3.org/2000/svg}path[@class='curve']")
    )
    assert len(lines) == 4 * 2 + 2  # four panels and the legend
    again = here.ok("-C", str(DGX), "simulate", *words, "--svg", str(here.root / "again.svg"))
    assert (here.root / "again.svg").read_bytes() == picture.read_bytes()
    assert "wait, mean" in again.out
    assert not (DGX / ".bai").exists()


def test_openb_needs_no_repository(here: Repo) -> None:
    words = ["--trace", str(TRACES / "openb" / "pods.csv"), "--nodes", str(TRACES / "openb" / "nodes.csv")]
    one = here.ok("simulate", *words, "--format", "json").json["policies"][0]
    assert (one["sessions"], one["finished"], one["policy"]) == (214, 214, "as declared")
    dense = here.ok(
        "simulate", *words, "--load", "40", "--selection", "dispersed,concentrated", "--format", "json"
    )
    spread, packed = dense.json["policies"]
    assert spread["secondsUntilLastStart"] < one["secondsUntilLastStart"]
    assert spread["fragmentation"]["mean"] > packed["fragmentation"]["mean"]
    cut = here.ok("simulate", *words, "--until", "1h", "--format", "markdown")
    assert "| still running |" in cut.out


def test_many_policies_are_named_by_letters(here: Repo) -> None:
    words = ("--queue", "fifo:maxSkips=0,fifo,drf", "--selection", "concentrated,roundrobin")
    said = here.ok("-C", str(DGX), "simulate", "--trace", str(TRACES / "small.yaml"), *words)
    assert "6 policies" in said.out
    assert "F  drf + roundrobin" in said.out


BAD = {
    "a.yaml": (
        "sessions:\n- {name: a, arrival: 5, duration: 1h, resorces: {cpu: 2}}\n- {name: B, arrival: -5}\n",
        ["a.yaml:2:39: BAI-V020", "a.yaml:3:10: BAI-V033", "-5 is neither", "'duration' is missing"],
    ),
    "twice.yaml": (
        "sessions:\n- {name: a, arrival: 5, duration: 1h}\n"
        "- {name: a, arrival: 2026-01-01T00:00:00Z, duration: 2}\n",
        ["twice.yaml:3:3: BAI-V042", "first on line 2", "BAI-V034 (arrival)"],
    ),
    "b.csv": (
        "name,arrival,duration,cpu,colour\na,x,1h,2,\nb,5,1h,no,\n",
        ["b.csv:1:1: BAI-V020 (colour)", "b.csv:2:1: BAI-V032 (arrival)", "b.csv:3:1", "(resources.cpu)"],
    ),
    "c.csv": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
        "a,1000,10,2,500,0,9\nb,1000,10,1,1000,9,3\nb,-1,10,0,0,1,2,3\n",
        [
            "c.csv:2:1",
            "500 of each of 2 GPUs",
            "3 is before 9",
            "'-1' is not a number",
            "more values",
            "line 3",
        ],
    ),
    "times.csv": ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", ["creation_time", "not when"]),
    "depends.yaml": (
        "sessions: [{name: a, arrival: 5, duration: 1h, dependsOn: [Session/default/b]}]\n",
        ["BAI-V040 (dependsOn)"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_trace_is_said_with_its_place(here: Repo, name: str) -> None:
    text, wanted = BAD[name]
    here.write(name, text)
    with pytest.raises(InvalidRepository) as caught:
        read_trace(here.root / name, Repository({}, {}), "main")
    said = "\n".join(map(str, caught.value.problems))
    assert [one for one in wanted if one not in said] == [], said


def test_files_that_are_no_traces(here: Repo) -> None:
    for name, text in (
        ("empty.csv", ""),
        ("none.yaml", "sessions: []\n"),
        ("head.csv", "name,arrival,duration\n"),
    ):
        here.write(name, text)
        said = here(
            "simulate", "--trace", str(here.root / name), "--nodes", str(TRACES / "openb" / "nodes.csv")
        )
        assert (said.code, "Traceback" in said.err) == (1, False), name
        assert "error: " in said.err
    said = here("simulate", "--trace", str(here.root / "nowhere.csv"))
    assert said.code == 1


def test_a_group_that_is_not_there(here: Repo) -> None:
    said = here(
        "-C", str(ROOT / "examples" / "clusters" / "mixed"), "simulate", "--trace", str(TRACES / "team.csv")
    )
    assert said.code == 1
    assert "240 sessions name no resource group" in said.err
    assert "known are a100, cpu, l40s" in said.err


def test_csv_and_yaml_mean_the_same(here: Repo) -> None:
    here.write(
        "one.csv",
        "name,project,arrival,duration,cpu,memory,cuda.shares,nodes,gpuModel,priority\n"
        "a,vision,10m,90,8,64GiB,0.5,3,A100|H100,7\n",
    )
    here.write(
        "one.yaml",
        "sessions:\n- {name: a, project: vision, arrival: 600, duration: 1m30s, priority: 7,\n"
        "   resources: {cpu: 8, memory: 64GiB, cuda.shares: 0.5},\n"
        "   cluster: {mode: multi-node, roles: {main: 1, sub: 2}}, placement: {gpuModel: [A100, H100]}}\n",
    )
    table, document = (
        read_trace(here.root / name, Repository({}, {}), "g") for name in ("one.csv", "one.yaml")
    )
    assert table == document
    assert (table[0].arrival, table[0].duration, len(table[0].request.kernels)) == (600, 90, 3)


def test_options_of_a_queue() -> None:
    group = GroupInfo("main", queue_options={"maxSkips": 3})
    found = policy_trials([group], "fifo:maxSkips=0:backfill,drf:halfLife=60", None, None, KNOWN)
    options = [dict(one.groups[0].queue_options) for one in found]
    assert options == [{"maxSkips": 0, "backfill": True}, {"maxSkips": 3, "halfLife": 60}]
    for wrong in ("fif", "fifo:maxSkips=-1", "fifo:backfill=3", "fifo:colour=2", "fifo:maxSkips=yes", ""):
        with pytest.raises(CommandError):
            policy_trials([group], wrong, None, None, KNOWN)
    with pytest.raises(CommandError):
        policy_trials([group], None, "dispersed", "neither", KNOWN)


@pytest.mark.parametrize("most", [0.0, 0.3, 1.0, 7.0, 44.0, 100.0, 12345.0])
def test_ticks_are_round_and_reach_the_top(most: float) -> None:
    ticks = value_ticks(most)
    assert ticks[0] == 0
    assert ticks[-1] >= most
    assert 2 <= len(ticks) <= 6


@pytest.mark.parametrize("span", [0.0, 5.0, 61.0, 4000.0, 90_000.0, 13e6])
def test_time_ticks_stay_few(span: float) -> None:
    ticks = time_ticks(span)
    assert 1 <= len(ticks) <= 7
    assert ticks[-1] <= span


def test_json_is_the_same_each_time(here: Repo) -> None:
    words = ("-C", str(DGX), "simulate", "--trace", str(TRACES / "small.yaml"), "--format", "json")
    first, second = here.ok(*words).out, here.ok(*words).out
    assert first == second
    assert json.loads(first)["trace"].endswith("small.yaml")
