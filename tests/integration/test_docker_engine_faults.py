"""Engines that die in the middle of an apply, and containers that the kernel ends: the next apply makes right
what it may, and says of the rest what it is."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from reconciler.workspace.workspace import Workspace
from tests.integration.test_docker_kill_apply import Lab, soon
from tests.lab.docker import Engine, Engines

pytestmark = pytest.mark.xdist_group("docker-clusters")


@pytest.fixture
def lab(engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.delenv("BAI_STATE", raising=False)
    two = engines(2)
    for engine in two:
        engine.wipe()
    made = Lab(tmp_path / "repository", two)
    try:
        yield made
    finally:
        engines(2)  # which starts who is dead
        made.close()


def made(engine: Engine) -> int:
    """Folders of containers: there before the engine answers that it has made one."""
    folder = engine.folder / "data/containers"
    return len(os.listdir(folder)) if folder.exists() else 0


@pytest.mark.slow
def test_an_engine_killed_during_an_apply(lab: Lab) -> None:
    victim = lab.engines[0]
    wanted = lab.want({f"s{n}": (1 + n % 2, 1 + n // 3) for n in range(6)})
    over = threading.Event()

    def kill() -> None:
        while not made(victim) and not over.wait(0.002):
            pass
        victim.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    first = lab.apply()
    over.set()
    killer.join()
    assert first["error"] or first["changes"], first
    victim.start()
    victim.wait()
    again = lab.apply()
    assert not again["error"], again
    assert soon(partial(lab.runs, wanted)), f"{again}; there is {dict(lab.running())}"
    assert lab.apply()["changes"] == 0
    lab.want({})
    assert not lab.apply()["error"]
    assert lab.containers() == [] and soon(lambda: not lab.left()), lab.left()


@pytest.mark.slow
def test_out_of_memory_is_told_and_not_started_over_and_over(lab: Lab) -> None:
    eats = {
        "apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": "eats", "project": "p"},
        "spec": {
            "image": "bai-lab:1", "resources": {"cpu": "100m", "memory": "16MiB"},
            "command": ["tail", "/dev/zero"],
        },
    }  # fmt: skip
    lab.want({"s0": (0, 1)})
    path = lab.directory / "sessions.yaml"
    path.write_text("\n---\n".join([path.read_text(), json.dumps(eats)]))
    assert not lab.apply()["error"]

    def phase() -> tuple[str, str]:
        with Workspace.open(lab.directory) as workspace:
            found = workspace.refresh(holder="test").existing["Session/p/eats"]
            return found.phase, found.reason

    assert soon(lambda: phase()[0] == "ERROR"), phase()
    assert "out-of-memory" in phase()[1]
    before = sorted(each["Id"] for each in lab.containers())
    assert lab.apply()["changes"] == 0, "who is told what is wrong decides"
    assert sorted(each["Id"] for each in lab.containers()) == before
    mended = {**eats, "spec": {**eats["spec"], "command": ["sleep", "1000"]}}  # type: ignore[dict-item]
    path.write_text(path.read_text().replace(json.dumps(eats), json.dumps(mended)))
    assert not lab.apply()["error"]
    assert soon(lambda: phase()[0] == "RUNNING"), phase()
