"""`bai explain` and `bai capacity`: on paper, and on real sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.render.analysis.report import render_report_markdown
from bai.render.printout import Section, Table
from tests.bai.conftest import Repo, new_repo, tidy
from tests.waiting import until

pytestmark = pytest.mark.slow

GPUS = "".join(
    f"      - {{id: GPU-{at}, index: {at}, model: H100, numaNode: {at // 2},"
    f" pci: '0000:{at + 1:02x}:00.0'}}\n"
    for at in range(4)
)
HARDWARE = (
    "  hardware:\n    numaNodes:\n"
    "      - {id: 0, cpus: 0-7, memory: 68719476736}\n      - {id: 1, cpus: 8-15, memory: 68719476736}\n"
    f"    gpus:\n{GPUS}"
)
PAPER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: gpu}
spec: {queue: fifo}
---
apiVersion: bai/v1
kind: Project
metadata: {name: demo}
spec: {}
"""


def gpu_session(name: str, gpus: int, cpu: int = 1, more: str = "") -> str:
    return (
        f"apiVersion: bai/v1\nkind: Session\nmetadata: {{name: {name}, project: demo}}\n"
        f"spec: {{command: [sleep, inf]{more},"
        f" resources: {{cpu: {cpu}, memory: 1GiB, cuda.device: {gpus}}}}}\n"
    )


@pytest.fixture
def paper(tmp_path: Path) -> Repo:
    """Two nodes of four GPUs and a cordoned one, on which three sessions can be planned and one cannot."""
    repo = new_repo(tmp_path)
    nodes = [
        f"---\napiVersion: bai/v1\nkind: Node\nmetadata: {{name: {name}}}\n"
        f"spec:\n  resourceGroup: gpu\n  state: {state}\n{HARDWARE}"
        for name, state in (("a", "active"), ("b", "active"), ("c", "cordoned"))
    ]
    repo.write("cluster.yaml", PAPER + "".join(nodes))
    repo.write("first.yaml", gpu_session("first", 2, more=", priority: 30"))
    repo.write("second.yaml", gpu_session("second", 4, cpu=4, more=", priority: 20"))
    repo.write("late.yaml", gpu_session("late", 4, cpu=2))
    return repo


def test_a_planned_session_is_explained_down_to_its_devices(paper: Repo) -> None:
    lines = paper.ok("explain", "first", "--offline").out.splitlines()
    assert lines[0] == "Session/demo/first  not applied"
    assert "    bai apply would create it (new)" in lines
    assert "Where the plan puts it: main1 on a" in lines
    assert any(
        line.split() == ["gpu", "0", "0000:01:00.0,", "H100,", "GPU-0,", "NUMA", "node", "0"]
        for line in lines
    )
    assert any("selects by concentrated" in line for line in lines)
    assert "    next best: b (equal, later in the order of nodes)" in lines
    assert "    all on one NUMA node" in lines


def test_a_waiting_session_learns_what_each_node_lacks(paper: Repo) -> None:
    lines = paper.ok("explain", "demo/late", "--offline", "--nodes", "2").out.splitlines()
    assert "    1 of 1 in the queue of group gpu" in lines
    assert any(
        "no-capacity: needs 4 GPUs" in line and "the largest free block is 2 GPUs on a" in line
        for line in lines
    )
    assert "How close the nodes come to one with 4 GPUs, 2 cores, 1 GiB" in lines
    table = [
        line.split("  ")
        for line in lines[lines.index("How close the nodes come to one with 4 GPUs, 2 cores, 1 GiB") :]
    ]
    words = [[cell.strip() for cell in line if cell.strip()] for line in table]
    assert ["c", "not open", "is cordoned"] in words
    assert ["a", "taken by others", "2 GPUs short: 2 GPUs free of 4 GPUs", "demo/first"] in words
    assert ["and 1 more node: 1 taken by others"] in words


def test_the_explanation_as_json_and_markdown(paper: Repo) -> None:
    late = paper.ok("explain", "Session/demo/late", "--offline", "--format", "json").json
    assert late["version"] == "bai.explanation/v1" and late["placement"] is None and late["planned"] is None
    assert (late["wait"]["position"], late["wait"]["queued"]) == (1, 1)
    (need,) = late["needs"]
    assert [(view["node"], view["verdict"]) for view in need["nodes"]] == [
        ("c", "closed"),
        ("a", "short"),
        ("b", "short"),
    ]
    assert need["nodes"][1]["lacks"] == [
        {"code": "GPUs", "message": "2 GPUs short: 2 GPUs free of 4 GPUs", "needed": 4, "has": 2}
    ]
    first = paper.ok("explain", "first", "--offline", "--format", "json").json
    (kernel,) = first["planned"]["kernels"]
    assert (kernel["node"], kernel["numaNodes"]) == ("a", [0])
    assert [one["pci"] for one in kernel["devices"]] == ["0000:01:00.0", "0000:02:00.0"]
    assert first["planned"]["choice"]["strategy"] == "concentrated" and first["wait"] is None
    text = paper.ok("explain", "late", "--offline", "--format", "markdown").out
    assert text.startswith("## Session/demo/late  not applied\n")
    assert "| c | not open | is cordoned |  |" in text


def test_explaining_nobody_suggests_somebody(paper: Repo) -> None:
    said = paper("explain", "demo/frist", "--offline")
    assert said.code == 1 and "Session/demo/first" in said.err and not said.out


def test_capacity_counts_before_and_after_the_plan(paper: Repo) -> None:
    (group,) = paper.ok("capacity", "--offline", "--format", "json").json["groups"]
    before, after = group["before"], group["after"]
    assert (after["nodes"], after["activeNodes"]) == (3, 2)
    assert (before["free"]["cuda.device"], after["free"]["cuda.device"]) == (8, 2)
    assert {one["size"]: one["fits"] for one in after["sizes"]} == {"1 GPU": 2, "2 GPUs": 1, "4 GPUs": 0}
    assert {one["size"]: one["fits"] for one in before["sizes"]} == {"1 GPU": 8, "2 GPUs": 4, "4 GPUs": 2}
    lies = after["devices"]
    assert (lies["largestBlock"], lies["largestBlockOn"], lies["inFragments"]) == (2, "a", 2)
    assert lies["nodesByFree"] == {"0": 1, "2": 1} and lies["overSeveralNumaNodes"] == ["Session/demo/second"]
    lines = paper.ok("capacity", "gpu", "--offline").out.splitlines()
    assert lines[0] == "gpu: 2 of 3 nodes active"
    assert ["cuda.device", "8", "0", "->", "6", "8", "->", "2"] in [line.split() for line in lines]
    assert "    largest free block: 4 GPUs -> 2 GPUs on a" in lines
    page = paper.ok("capacity", "gpu", "--offline", "--format", "markdown").out
    assert page.startswith("## gpu: 2 of 3 nodes active\n") and "| 2 GPUs | 4 -\\> 1 | 4 -\\> 1 |  |" in page


def test_capacity_of_an_unknown_group_is_refused(paper: Repo) -> None:
    said = paper("capacity", "gpus", "--offline")
    assert said.code == 1 and "did you mean" in said.err


def test_planning_a_replacement_needs_a_session(paper: Repo) -> None:
    said = paper("plan", "--offline", "--replace", "nobody")
    assert said.code == 1 and "nobody" in said.err
    assert paper("plan", "--offline", "--replace", "first", "--destroy").code == 1


def test_a_report_in_markdown_is_taken_literally() -> None:
    page = render_report_markdown([Section("a*b", ("x_y", Table(("c|d",), (("<e>",),)), "end"), 2)])
    assert page == "### a\\*b\n\n- x\\_y\n\n| c\\|d |\n| --- |\n| \\<e\\> |\n\n- end\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """One that runs, one that ends badly, one that waits."""
    repo = new_repo(tmp_path_factory.mktemp("world"))
    repo.session("talker", "sleep", "1000", cpu="1")
    repo.session("broken", "sh", "-c", "exit 3")
    repo.session("giant", "true", cpu="4096")
    try:
        repo.ok("apply", "--yes")
        until(lambda: _phase(repo, "broken") == "ERROR", "broken has failed")
        yield repo
    finally:
        tidy(repo)


def _phase(repo: Repo, name: str) -> str:
    items = repo.ok("get", "sessions", name, "--format", "json").json["items"]
    return str(items[0].get("phase", ""))


def test_what_runs_keeps_why_it_is_there(world: Repo) -> None:
    found = world.ok("explain", "talker", "--format", "json").json
    assert found["phase"] == "RUNNING" and found["plan"] == "" and found["planned"] is None
    (kernel,) = found["placement"]["kernels"]
    assert kernel["node"] == "localhost" and len(kernel["cpus"]) >= 1
    assert found["placement"]["choice"]["strategy"] == "concentrated"
    offline = world.ok("explain", "talker", "--format", "json", "--offline").json
    assert offline["placement"] == found["placement"]


def test_what_failed_says_how_to_start_it_again(world: Repo) -> None:
    lines = world.ok("explain", "broken").out.splitlines()
    assert lines[0] == "Session/demo/broken  ERROR"
    assert "    main1 exited with 3" in lines
    assert "Where it was: main1 on localhost" in lines
    assert "    bai apply --replace Session/demo/broken starts it again" in lines
    assert "Session/demo/broken is in ERROR: main1 exited with 3" in world.ok("plan").out


def test_what_can_never_fit_is_told_from_the_largest_node(world: Repo) -> None:
    text = world.ok("explain", "giant").out
    assert "impossible: needs 4096 cores" in text and "too small" in text


def test_a_session_is_started_anew_when_asked(repo: Repo) -> None:
    repo.session("talker", "sleep", "1000")
    repo.session("other", "sleep", "1000")
    repo.ok("apply", "--yes")
    said = repo.ok("plan", "--replace", "demo/talker")
    assert "asked for by --replace" in said.out and "generation: 1 -> 2  # forces replacement" in said.out
    assert "Plan: 1 to replace." in said.out
    said = repo.ok("apply", "--yes", "--replace", "talker")
    assert "Applied: 1 done" in said.out
    items = {one["id"]: one for one in repo.ok("get", "--format", "json").json["items"]}
    assert items["Session/demo/talker"]["generation"] == 2 and items["Session/demo/other"]["generation"] == 1
    assert "No changes" in repo.ok("plan").out
    saved = repo.root / "plan.json"
    repo.ok("plan", "--replace", "talker", "--out", str(saved))
    assert repo("apply", str(saved), "--replace", "other").code == 1
    assert repo("apply", "--refresh-only", "--replace", "other").code == 1
    repo.ok("apply", str(saved))
    assert repo.ok("get", "talker", "--format", "json").json["items"][0]["generation"] == 3
