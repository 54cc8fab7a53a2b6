"""A place that is held for a service is lent to a batch session, on native processes: that gives way to a
further replica, and comes back when it goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bai.conftest import Repo, new_repo, tidy
from tests.waiting import until

SHARE = int(0.4 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20
"""MiB of which a node has room for two."""
WORK = {"command": ["sleep", "1000"], "resources": {"cpu": "100m", "memory": f"{SHARE}MiB"}}


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = new_repo(tmp_path)
    scale(made, 1)
    yield made
    tidy(made)


def write(repo: Repo, kind: str, name: str, spec: dict[str, Any]) -> None:
    metadata = {"name": name, "project": "demo"}
    document = {"apiVersion": "bai/v1", "kind": kind, "metadata": metadata, "spec": spec}
    repo.write(f"{name}.yaml", yaml.safe_dump(document))


def scale(repo: Repo, replicas: int) -> None:
    write(repo, "Service", "web", {"replicas": replicas, "headroom": {"replicas": 1}, "template": WORK})


def service(repo: Repo) -> dict[str, Any]:
    found: dict[str, Any] = repo.ok("get", "services", "--format", "json").json["items"][0]
    return found


def phase(repo: Repo) -> str:
    items = repo.ok("get", "sessions", "--format", "json").json["items"]
    return str(next(each["phase"] for each in items if each["id"] == "Session/demo/job"))


@pytest.mark.xdist_group("machine")
def test_who_was_lent_a_held_place_gives_way_and_comes_back(repo: Repo) -> None:
    repo.ok("apply", "--yes")
    (place,) = service(repo)["held"]
    assert place["containers"][0]["node"] == "localhost" and place["lent"] == []
    write(repo, "Session", "firm", WORK)
    assert "held for Service/demo/web" in repo.ok("plan").out
    (repo.root / "firm.yaml").unlink()

    write(
        repo,
        "Session",
        "job",
        {**WORK, "type": "batch", "preemptible": True, "priority": 90, "stop": {"grace": "1s"}},
    )
    repo.ok("apply", "--yes")
    assert phase(repo) == "RUNNING"
    assert service(repo)["held"][0]["lent"] == ["Session/demo/job"]

    scale(repo, 2)
    assert "takes the place that it was lent" in repo.ok("plan").out
    repo.ok("apply", "--yes")
    assert phase(repo) == "PENDING"
    until(lambda: service(repo)["status"]["ready"] == 2, "both replicas run", pause=0.2)

    scale(repo, 1)

    def came_back() -> bool:
        repo.ok("apply", "--yes")
        return phase(repo) == "RUNNING"

    until(came_back, "the batch session runs again", pause=0.2)
    assert service(repo)["held"][0]["lent"] == ["Session/demo/job"]
