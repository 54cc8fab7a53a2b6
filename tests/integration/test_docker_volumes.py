"""Volumes in containers on real engines: shared by nodes, read-only where they are, never a way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.storage.base import TrashLocation
from reconciler.values.plan import Plan
from reconciler.values.plan_options import PlanOptions
from tests.integration.gang import Gangs
from tests.lab.docker import IMAGE, Engines

pytestmark = pytest.mark.xdist_group("docker-clusters")
VOLUMES = """\
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{root: {0}, node: n1}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: data, project: p}}
spec: {{mode: "0777"}}
"""


@pytest.fixture
def lab(engines: Engines, tmp_path: Path) -> Iterator[Gangs]:
    repository = tmp_path / "repository"
    repository.mkdir()
    (tmp_path / "disk").mkdir()
    made = Gangs(repository, engines(2))
    (repository / "volumes.yaml").write_text(VOLUMES.format(tmp_path / "disk"))
    yield made
    made.close()


def text(command: str, mounts: str, more: str = "") -> str:
    return (
        f"image: {IMAGE}\ntype: batch\nresources: {{cpu: 200m, memory: 32MiB}}\n{more}\n"
        f"command: [sh, -c, '{command}']\nmounts: [{mounts}]\n"
    )


def verbs(plan: Plan) -> dict[str, str]:
    return {action.id: action.verb for action in plan.changes}


def test_what_one_session_writes_another_reads_and_cannot_change(lab: Gangs, tmp_path: Path) -> None:
    lab.write("write", text("echo 42 > /out/answer", "{volume: data, path: /out, subPath: runs/1}"))
    lab.done()
    assert lab.until("write", "TERMINATED").result == "success"
    assert (tmp_path / "disk" / "p" / "data").stat().st_mode & 0o777 == 0o777
    reading = "cat /in/runs/1/answer; echo 43 > /in/runs/1/answer || echo refused"
    lab.write("read", text(reading, "{volume: data, path: /in, readOnly: true}"))
    lab.done()
    lab.until("read", "TERMINATED")
    assert "42" in lab.logs("read") and "refused" in lab.logs("read")
    assert (tmp_path / "disk" / "p" / "data" / "runs" / "1" / "answer").read_text() == "42\n"


def test_a_link_planted_in_a_volume_leads_nowhere(lab: Gangs, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    lab.write("plant", text(f"ln -s {tmp_path}/private /out/way", "{volume: data, path: /out}"))
    lab.done()
    lab.until("plant", "TERMINATED")
    lab.write("follow", text("echo x > /out/x", "{volume: data, path: /out, subPath: way/deeper}"))
    result = lab.apply()
    [failed] = [each for each in result.results if each.action == "Session/p/follow"]
    assert failed.outcome == "failed"
    assert "way is a link" in failed.error
    assert list((tmp_path / "private").iterdir()) == []


def test_a_volume_in_use_is_kept_and_then_waits_in_the_trash(lab: Gangs, tmp_path: Path) -> None:
    lab.write("hold", text("sleep 600", "{volume: data, path: /out}").replace("batch", "interactive"))
    lab.done()
    volumes = (lab.folder / "volumes.yaml").read_text()
    space = lab.open()
    assert space.storage is not None
    trash = TrashLocation("disk", "n1", str(tmp_path / "disk"))

    lab.drop("hold")
    (lab.folder / "volumes.yaml").write_text(volumes.partition("---")[0])
    alone = lab.open().plan(PlanOptions(targets=("Volume/p/data",)))
    assert verbs(alone) == {}
    assert any("is not deleted while Session/p/hold has it mounted" in warning for warning in alone.warnings)
    both = lab.plan()
    assert verbs(both) == {"Session/p/hold": "delete", "Volume/p/data": "delete"}
    lab.done()
    assert [entry.volume for entry in space.storage.trashed(trash)] == ["Volume/p/data"]
    assert not (tmp_path / "disk" / "p" / "data").exists()


def test_the_node_refuses_while_a_container_of_somebody_else_has_it(
    lab: Gangs, engines: Engines, tmp_path: Path
) -> None:
    lab.done()
    folder = tmp_path / "disk" / "p" / "data"
    engine = engines(2)[1]
    engine.docker("run", "-d", "--name", "stranger", "-v", f"{folder}:/x", IMAGE, "sleep", "600")
    volumes = (lab.folder / "volumes.yaml").read_text()
    (lab.folder / "volumes.yaml").write_text(volumes.partition("---")[0])
    [failed] = [each for each in lab.apply().results if each.outcome == "failed"]
    assert "has it mounted" in failed.error
    assert folder.is_dir()
    engine.docker("rm", "-f", "stranger")
    lab.done()
    assert not folder.exists()


def test_a_root_that_is_not_mounted_on_the_node_starts_nobody(lab: Gangs, tmp_path: Path) -> None:
    lab.done()
    volumes = (lab.folder / "volumes.yaml").read_text()
    (lab.folder / "volumes.yaml").write_text(volumes.replace("node: n1", "node: n1, fileSystems: [lustre]"))
    lab.write("run", text("true", "{volume: data, path: /out}"))
    outcomes = {each.action: each.outcome for each in lab.apply().results}
    assert (outcomes["Volume/p/data"], outcomes["Session/p/run"]) == ("failed", "skipped")
