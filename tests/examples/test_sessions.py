"""Every session feature that this machine can show, applied for real."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.examples.user import User
from tests.waiting import until

FINISHED = {"batch": 0, "environment": 0, "secrets": 0, "volume": 0, "sub-path": 0, "restart": 3}
RUNNING = (
    "interactive",
    "terminal",
    "exclusive-core",
    "shared-cpu",
    "containers",
    "stop",
    "priority",
    "limits",
    "protected",
)


def sessions(user: User) -> dict[str, dict[str, Any]]:
    """Session name to what `bai get` says of it."""
    found = json.loads(user.bai("get", "sessions", "--format", "json"))["items"]
    return {each["id"].rpartition("/")[2]: each for each in found}


def has_ended(user: User, *names: str) -> bool:
    now = sessions(user)
    return all(now[name]["phase"] == "TERMINATED" for name in names)


@pytest.mark.xdist_group("machine")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="the examples need two CPUs")
@pytest.mark.parametrize("user", ["sessions/here"], indirect=True)
def test_every_feature(user: User, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    cluster = user.folder / "cluster.yaml"
    cluster.write_text(cluster.read_text().replace("root: /var/tmp", f"root: {data}"))
    plan = user.plan()
    waiting = {wait["session"].rsplit("/", 1)[1]: wait["reasons"][0]["code"] for wait in plan["waits"]}
    assert waiting == {"depends-on": "dependency", "held": "held", "starts-at": "starts-at"}
    user.bai("apply", "--yes")
    until(lambda: has_ended(user, *FINISHED, "timeout"), "the batch sessions end", pause=0.2)
    now = sessions(user)
    assert {name: set(now[name]["exitCodes"].values()) for name in FINISHED} == {
        n: {c} for n, c in FINISHED.items()
    }
    assert {name: now[name]["phase"] for name in RUNNING} == dict.fromkeys(RUNNING, "RUNNING")

    assert "hello, world: main1 uses 3 threads" in user.bai("logs", "environment")
    assert "the secret has 9 characters" in user.bai("logs", "secrets")
    assert user.bai("logs", "restart").count("trying") == 3
    said = until(lambda: user.bai("logs", "containers/worker2"), "worker2 says who it is", pause=0.2)
    assert "worker2 of main1,worker1,worker2" in said
    results = data / "bai-examples" / "results"
    assert (results / "when").read_text()
    assert (results / "runs" / "sub-path" / "result").read_text() == "done\n"
    assert results.stat().st_mode & 0o7777 == 0o775

    until(lambda: user.bai("logs", "terminal") != "", "the shell with a terminal prompts", pause=0.2)
    user.bai("cp", str(results / "when"), "interactive:copied")
    if hasattr(tarfile, "data_filter"):  # Python 3.11.4 or newer unpacks archives safely.
        user.bai("cp", "interactive:copied", str(tmp_path))
        assert (tmp_path / "copied").read_text() == (results / "when").read_text()
    assert "examples/terminal" in user.bai("top", "--once", "--interval", "0.2")

    user.bai("apply", "--yes")
    until(lambda: has_ended(user, "depends-on"), "depends-on runs after batch", pause=0.2)
    waiting = {wait["session"].rsplit("/", 1)[1] for wait in user.plan()["waits"]}
    assert waiting == {"held", "starts-at"}
    user.bai("plan", "--detailed-exitcode")

    (user.folder / "protected.yaml").unlink()
    assert "BAI-E0502" in user.run("apply", "--yes").stderr
    assert sessions(user)["protected"]["phase"] == "RUNNING"
    (user.folder / "protected.yaml").write_text(
        (Path(__file__).parents[2] / "examples/sessions/here/protected.yaml").read_text()
    )
