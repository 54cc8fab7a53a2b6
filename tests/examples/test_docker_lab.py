"""The example of four Docker nodes over SSH, as a user tries it: applied, compared with what the kernel says,
and destroyed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.user import User
from tests.lab import mpi
from tests.lab.cache import LabUnavailable
from tests.lab.docker import Engine
from tests.lab.docker_lab import DockerLab, lent_docker_lab
from tests.providers.docker.cgroups import limits
from tests.waiting import until

pytestmark = [
    pytest.mark.xdist_group("docker-clusters"),
    pytest.mark.parametrize("user", ["clusters/docker-lab"], indirect=True),
]

SUM = """apiVersion: bai/v1
kind: Session
metadata: {name: allreduce, project: lab}
spec:
  type: batch
  image: MPI
  resources: {cpu: 500m, memory: 1200MiB}
  cluster:
    mode: multi-node
    roles: {main: 1, sub: 3}
    perRole: {sub: {command: [sleep, infinity]}}
  command: [mpirun, -H, 'main1,sub1,sub2,sub3', python3, /opt/allreduce.py]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerLab]:
    yield from lent_docker_lab(tmp_path_factory.mktemp("lab"))


def at(user: User, lab: DockerLab) -> None:
    """The example's documents, for this lab."""
    user.environment["BAI_SECRET_STORES"] = str(lab.stores)
    for path in user.folder.glob("*.yaml"):
        text = path.read_text().replace("/run/bai-docker-lab", str(lab.folder))
        # Each login starts a server of its own, which a loaded machine takes its time for.
        path.write_text(text.replace("port: 2222", f"port: {lab.port}, connectTimeout: 60s"))


def sessions(user: User) -> dict[str, dict[str, Any]]:
    found = json.loads(user.bai("get", "sessions", "--format", "json"))["items"]
    return {each["id"].rpartition("/")[2]: each for each in found}


def test_everything_runs_as_planned(user: User, lab: DockerLab) -> None:
    at(user, lab)
    plan = user.plan()
    networks = {a["id"]: _networks(a) for a in plan["actions"] if a["id"].startswith("Session/")}
    assert networks["Session/lab/pair"] == networks["Session/lab/ring"] == {"overlay"}
    assert networks["Session/lab/shell"] == {"default"}
    user.bai("apply", "--yes")
    until(lambda: "add up to 6" in user.bai("logs", "ring"), lambda: user.bai("logs", "ring"), pause=0.5)
    until(
        lambda: {sessions(user)[name]["phase"] for name in ("pair", "sum-up")} == {"TERMINATED"},
        lambda: user.bai("get", "sessions"),
        pause=0.5,
    )
    now = sessions(user)
    assert {name: now[name]["phase"] for name in ("shell", "hello", "ring")} == dict.fromkeys(
        ("shell", "hello", "ring"), "RUNNING"
    )
    assert (now["sum-up"]["result"], now["pair"]["result"]) == ("success", "success")
    assert user.bai("logs", "sum-up") == "500500\n"
    assert user.bai("logs", "pair") == "greetings from sub1\n"
    assert user.bai("exec", "ring/sub2", "--", "hostname") == "sub2\n"
    running = [k for name in ("shell", "hello", "ring") for k in _kernels(plan, f"Session/lab/{name}")]
    assert len(running) == 6
    for spec, part in running:
        _as_planned(_engine(lab, part["node"]), spec, part)
    _published(lab, plan)
    user.bai("destroy", "--yes")
    for engine in lab.engines:
        assert engine.docker("ps", "-aq") == ""
        assert "bai" not in engine.docker("network", "ls", "--format", "{{.Name}}")
    assert _left(plan) == []


def _left(plan: dict[str, Any]) -> list[str]:
    """Folders of this plan's kernels that are still on the node."""
    ids = [k for a in plan["actions"] if a["after"] for k in a["after"]["kernels"]]
    return [name for name in ids if (Path("/run/bai/docker") / name).exists()]


def _networks(action: dict[str, Any]) -> set[str]:
    return {part["network"] for part in action["after"]["placement"]["kernels"]}


def _kernels(plan: dict[str, Any], session: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Spec and placement of every kernel."""
    after = next(action["after"] for action in plan["actions"] if action["id"] == session)
    return list(zip(after["specs"], after["placement"]["kernels"], strict=True))


def _engine(lab: DockerLab, node: str) -> Engine:
    return next(engine for engine in lab.engines if engine.name == node)


def _as_planned(engine: Engine, spec: dict[str, Any], part: dict[str, Any]) -> None:
    """What the kernel holds the container to is what the plan said, and so are its labels and name."""
    found = limits(engine, spec["id"])
    assert found["memory_nodes"] == tuple(part["memory_nodes"])
    assert found["memory"] == part["memory"]
    assert found["pids"] == spec["pids"]
    if part["cpus"]:
        assert found["cpus"] == tuple(part["cpus"])
    inspected = engine.inspect(spec["id"])
    labels = inspected["Config"]["Labels"]
    for name in ("repo", "cluster", "resource", "digest", "kernel", "node", "commit"):
        assert labels[f"bai.{name}"] == spec["labels"][name]
    assert labels["bai.id"] == spec["id"]
    assert labels["bai.generation"] == str(spec["labels"]["generation"])
    assert json.loads(labels["bai.placement"])["memory"] == part["memory"]
    assert inspected["Config"]["Hostname"] == part["kernel"]


def _published(lab: DockerLab, plan: dict[str, Any]) -> None:
    """The port that the plan names answers at its node, also from another node."""
    ((_, part),) = _kernels(plan, "Session/lab/hello")
    (port,) = part["ports"]
    node = _engine(lab, part["node"])
    other = next(engine for engine in lab.engines if engine is not node)
    words = ["busybox", "wget", "-qO-", f"http://{node.address}:{port['on']}/"]
    page = until(lambda: other.run(words).stdout, "it serves its page", pause=0.5)
    assert page == "hello from hello\n"


def test_four_nodes_sum_over_mpi(user: User, lab: DockerLab) -> None:
    try:
        for engine in lab.engines:
            mpi.load(engine)
    except LabUnavailable as error:
        pytest.skip(f"docker lab: {error}")
    at(user, lab)
    (user.folder / "sessions.yaml").write_text(SUM.replace("MPI", mpi.MPI))
    user.bai("apply", "--yes")
    until(
        lambda: sessions(user)["allreduce"]["phase"] == "TERMINATED",
        lambda: user.bai("get", "sessions") + user.bai("logs", "allreduce"),
        pause=0.5,
    )
    assert mpi.without_warnings(user.bai("logs", "allreduce")) == "4 ranks on main1,sub1,sub2,sub3: 10 \n"
    assert sessions(user)["allreduce"]["result"] == "success"
    user.bai("destroy", "--yes")
