"""`bai images` without nodes: what is listed, scanned and remembered, with a real registry on the loopback;
and how pulls are told while an apply goes on."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from bai.cli.main import run
from bai.cli.plans.progress import LineProgress, LiveProgress, event_line
from providers.images import PullProgress
from reconciler.values.results import ApplyEvent
from tests.lab.http_replay import Replay, Reply
from tests.lab.registry import StartRegistry
from tests.schemas.test_images import BASE, document

DIGEST = "sha256:" + "a" * 64


def bai(folder: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    given = run(["-C", str(folder), *words])
    told = capsys.readouterr()
    assert given == code, told.out + told.err
    return told.out + told.err


def test_what_a_scan_finds_is_remembered_and_used_by_plans(
    registry: StartRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = registry()
    digest = lab.push("tool:1", labels={"bai.min.mem": "2g"}, architectures=("amd64", "arm64"))
    node = document("Node", "n1", "{hardware: {numaNodes: [{id: 0, cpus: 0-3, memory: 8GiB}]}}")
    lab_document = document("Registry", "lab", f"{{address: '{lab.address}', plainHttp: true}}")
    image = document("Image", "tool", "{registry: lab, reference: 'tool:1', pin: digest}")
    session = document("Session", "s", "{image: tool, resources: {cpu: 1, memory: 1GiB}}")
    (tmp_path / "all.yaml").write_text(BASE + node + lab_document + image + session)
    assert "not scanned" in bai(tmp_path, capsys, "images")
    assert "bai images scan" in bai(tmp_path, capsys, "plan", "--offline")
    assert "amd64, arm64" in bai(tmp_path, capsys, "images", "scan")
    (item,) = json.loads(bai(tmp_path, capsys, "images", "--format", "json"))["items"]
    assert (item["facts"]["digest"], item["minimum"], item["sessions"]) == (
        digest, {"mem": 2 << 30}, ["Session/vision/s"],
    )  # fmt: skip
    planned = " ".join(bai(tmp_path, capsys, "plan", "--offline").split())
    assert "needs at least 2GiB of memory" in planned
    shown = bai(tmp_path, capsys, "images", "show", "Image/tool", "--offline")
    assert digest in shown
    assert "label bai.min.mem: 2g" in shown
    assert "tool" in bai(tmp_path, capsys, "images", "registries", "lab")
    assert bai(tmp_path, capsys, "images", "show", f"{lab.address}/tool:1", "--offline") == shown
    assert "it is not said where to" in bai(tmp_path, capsys, "images", "pull", "tool", code=1)


def test_harbor_is_listed_by_projects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = {"name": "vision", "project_id": 7}
    artifact = {
        "digest": DIGEST,
        "size": 3 << 30,
        "tags": [{"name": "2.4"}],
        "extra_attrs": {"architecture": "amd64"},
    }
    robots = [{"name": "robot$old", "disable": True}, {"name": "robot$new", "expires_at": 1_800_000_000}]
    api, page = "/api/v2.0", "page=1&page_size=100"
    answers = {
        "/v2/": Reply(200, {}),
        f"{api}/projects?{page}": Reply(200, [project]),
        f"{api}/projects/vision": Reply(200, project),
        f"{api}/robots?q=Level%3Dproject%2CProjectID%3D7&{page}": Reply(200, robots),
        f"{api}/projects/vision/repositories?{page}": Reply(200, [{"name": "vision/torch"}]),
        f"{api}/projects/vision/repositories/torch/artifacts?with_tag=true&{page}": Reply(200, [artifact]),
    }
    with Replay(answers) as server:
        lab = document("Registry", "lab", f"{{type: harbor, address: '{server.address}', plainHttp: true}}")
        (tmp_path / "all.yaml").write_text(BASE + lab)
        checked = bai(tmp_path, capsys, "images", "registries")
        assert "robot$old is switched off, robot$new until 2027-01-15" in checked
        listed = bai(tmp_path, capsys, "images", "registries", "lab")
    assert [line.split() for line in listed.splitlines()][1] == ["vision/torch", "2.4", "amd64", "3GiB"]


def news(layers: int, *, over: bool = False) -> ApplyEvent:
    pull = PullProgress("n1", "r.io/tool:1", layers, 3, layers << 30, 3 << 30, over)
    return ApplyEvent("progress", 0.0, "Session/p/s", "create", step="create s", pull=pull)


def test_pulls_are_told_at_their_beginning_and_end_where_nobody_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = LineProgress()
    for event in (news(0), news(1), news(2), news(3, over=True)):
        lines.on_event(event)
    assert capsys.readouterr().out.splitlines() == [
        "Session/p/s: n1 fetches r.io/tool:1: 0 of 3 layers, 0 of 3GiB",
        "Session/p/s: n1 has r.io/tool:1",
    ]


def test_a_terminal_shows_how_far_a_pull_has_come() -> None:
    from rich.console import Console

    live = LiveProgress(Console(file=io.StringIO(), force_terminal=True, width=100), 1)
    try:
        live.on_event(news(1))
        shown = io.StringIO()
        Console(file=shown, width=100).print(live._render())
        assert "n1 fetches r.io/tool:1: 1 of 3 layers, 1GiB of 3GiB" in shown.getvalue()
        live.on_event(news(3, over=True))
        shown = io.StringIO()
        Console(file=shown, width=100).print(live._render())
        assert "fetches" not in shown.getvalue()
    finally:
        live.close()


def test_only_pulls_are_told_as_progress() -> None:
    assert event_line(ApplyEvent("progress", 0.0, "Session/p/s")) == ""
