"""Every session feature that this machine can show, applied for real."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.examples.user import User

FINISHED = {"batch": 0, "environment": 0, "secrets": 0, "volume": 0, "restart": 3}
RUNNING = (
    "interactive",
    "exclusive-core",
    "shared-cpu",
    "containers",
    "stop",
    "priority",
    "limits",
    "protected",
)


def until(probe: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120
    while not probe():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def session(user: User, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(user.bai("describe", f"Session/examples/{name}", "--format", "json"))
    return found


@pytest.mark.xdist_group("machine")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="the examples need two CPUs")
@pytest.mark.parametrize("user", ["sessions/here"], indirect=True)
def test_every_feature(user: User, tmp_path: Path) -> None:
    data = tmp_path / "data"
    cluster = user.folder / "cluster.yaml"
    cluster.write_text(cluster.read_text().replace("/var/tmp/bai-examples", str(data)))
    plan = user.plan()
    waiting = {wait["session"].rsplit("/", 1)[1]: wait["reasons"][0]["code"] for wait in plan["waits"]}
    assert waiting == {"depends-on": "dependency", "starts-at": "starts-at"}
    user.bai("apply", "--yes")
    for name, code in FINISHED.items():
        until(lambda name=name: session(user, name)["phase"] == "TERMINATED", f"{name} ends")
        assert set(session(user, name)["exit_codes"].values()) == {code}, name
    until(lambda: session(user, "timeout")["phase"] == "TERMINATED", "timeout is stopped")
    assert {name: session(user, name)["phase"] for name in RUNNING} == dict.fromkeys(RUNNING, "RUNNING")

    assert "hello, world: main1 uses 3 threads" in user.bai("logs", "environment")
    assert "the secret has" in user.bai("logs", "secrets")
    assert user.bai("logs", "restart").count("trying") == 3
    assert "worker2 of main1,worker1,worker2" in user.bai("logs", "containers/worker2")
    assert (data / "results" / "when").read_text()

    user.bai("apply", "--yes")
    until(lambda: session(user, "depends-on")["phase"] == "TERMINATED", "depends-on runs after batch")
    assert user.plan()["waits"][0]["session"] == "Session/examples/starts-at"
    user.bai("plan", "--detailed-exitcode")

    (user.folder / "protected.yaml").unlink()
    assert "BAI-E0502" in user.run("apply", "--yes").stderr
    assert session(user, "protected")["phase"] == "RUNNING"
    (user.folder / "protected.yaml").write_text(
        (Path(__file__).parents[2] / "examples/sessions/here/protected.yaml").read_text()
    )
