"""What a person does in a session of containers on two nodes, over SSH, with the command itself."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.bai.conftest import Repo
from tests.bai.test_running_commands import next_line
from tests.lab.docker_lab import DockerLab, lent_docker_lab
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("docker-clusters")
ROOT = Path(__file__).parents[2]
CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: lab}}
spec:
  provider: docker
  docker: {{network: auto}}
  ssh: {{user: root, port: {port}, keyFrom: lab/key, knownHostsFrom: lab/known_hosts}}
  defaults: {{image: bai-lab:1}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
spec: {{}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: demo}}
spec: {{}}
"""
NODE = """\
---
apiVersion: bai/v1
kind: Node
metadata: {{name: n{number}}}
spec:
  address: 127.0.2.{number}
  dataAddress: 10.213.0.{number}
  docker: {{socket: {folder}/n{number}/docker.sock}}
  hardware: {{numaNodes: [{{id: 0, cpus: 0-1, memory: 2GiB}}]}}
"""
GANG = """\
apiVersion: bai/v1
kind: Session
metadata: {name: gang, project: demo}
spec:
  resources: {cpu: 500m, memory: 900MiB}
  cluster: {mode: multi-node, roles: {main: 1, sub: 1}}
  command: [sh, -c, "echo up; exec httpd -f -p 7070 -h /tmp"]
  ports: [{name: web, port: 7070}]
"""
SPOKEN = "main1 | up\nsub1  | up\n"
SHELL = """\
apiVersion: bai/v1
kind: Session
metadata: {name: lab, project: demo}
spec:
  resources: {cpu: 500m, memory: 64MiB}
  tty: true
  command: [sh]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerLab]:
    yield from lent_docker_lab(tmp_path_factory.mktemp("lab"), 2)


def serves(repo: Repo, kernel: str) -> bool:
    """Its server, which begins after its word."""
    asks = "wget -O /dev/null http://127.0.0.1:7070/ 2>&1"
    return "404" in repo.process("exec", f"gang/{kernel}", "--", "sh", "-c", asks).out


@pytest.fixture(scope="module")
def world(lab: DockerLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    folder = tmp_path_factory.mktemp("world")
    (folder / "repository").mkdir()
    repo = Repo(
        folder / "repository", {"COLUMNS": "120", "HOME": str(folder), "BAI_SECRET_STORES": str(lab.stores)}
    )
    place = {"folder": lab.folder, "port": lab.port}
    nodes = "".join(NODE.format(number=number, **place) for number in (1, 2))
    repo.write("cluster.yaml", CLUSTER.format(**place) + nodes)
    repo.write("gang.yaml", GANG)
    repo.write("shell.yaml", SHELL)
    try:
        repo.ok("apply", "--yes")
        until(lambda: repo.ok("logs", "--all", "gang").out == SPOKEN, "both containers have spoken")
        for kernel in ("main1", "sub1"):
            until(lambda at=kernel: serves(repo, at), f"{kernel} serves")
        yield repo
    finally:
        repo("state", "unlock", "--yes")
        repo("destroy", "--yes")


def test_commands_files_and_logs_of_containers_on_two_nodes(world: Repo, tmp_path: Path) -> None:
    assert world.process("exec", "gang/sub1", "--", "sh", "-c", "hostname; exit 3").out == "sub1\n"
    assert world.ok("logs", "--all", "gang").out == SPOKEN
    assert world.ok("logs", "gang", "--since", "2999-01-01").out == ""
    (tmp_path / "page").write_text("from a file\n")
    for kernel in ("main1", "sub1"):
        world.ok("cp", str(tmp_path / "page"), f"gang/{kernel}:/tmp")
    said = world.process("exec", "gang", "--", "wget", "-qO-", "http://sub1:7070/page")
    assert said.out == "from a file\n"
    world.ok("cp", "gang/sub1:/tmp", str(tmp_path / "back"))
    assert (tmp_path / "back" / "page").read_text() == "from a file\n"
    with (tmp_path / "x.tar").open("wb") as target:
        world.process("cp", "gang:/tmp/page", "-", stdout=target)
    with tarfile.open(tmp_path / "x.tar") as archive:
        assert archive.getnames() == ["page"]
    assert "Cannot copy /nope" in world("cp", "gang:/nope", str(tmp_path)).err


def test_ports_of_every_container(world: Repo) -> None:
    for kernel in ("main1", "sub1"):
        with world.start("port-forward", f"gang/{kernel}", "0:web") as started:
            local = int(next_line(started).split(" ")[0].rpartition(":")[2])
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", local), timeout=60) as stream:
                    stream.sendall(b"GET /none HTTP/1.0\r\n\r\n")
                    assert stream.makefile().read().startswith("HTTP/1.")
            started.send_signal(signal.SIGINT)
            assert started.wait(timeout=60) == 0


def test_top_measures_every_node(world: Repo) -> None:
    found = world.ok("top", "--interval", "0.3", "--format", "json").json["kernels"]
    rows = {(row["session"].rpartition("/")[2], row["kernel"]): row for row in found}
    assert set(rows) == {("gang", "main1"), ("gang", "sub1"), ("lab", "main1")}
    assert {row["node"] for row in found} == {"n1", "n2"}
    assert all(row["memory"] and row["pids"] and row["networkInPerSecond"] is not None for row in found)
    assert rows["lab", "main1"]["memoryLimit"] == 64 << 20


def test_a_terminal_over_ssh(world: Repo) -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-c", "from bai.cli.main import main; main()", "-C", str(world.root), "attach", "lab"],
        env={**os.environ, **world.env, "TERM": "xterm"},
        cwd=str(ROOT),
        encoding="utf-8",
        timeout=120,
        use_poll=True,
        dimensions=(33, 99),
    )
    child.expect("leaves")
    child.sendline("stty size; echo he''re")
    child.expect("here")
    child.setwinsize(44, 111)

    def resized() -> bool:
        child.sendline("stty size; echo d''one")
        child.expect("done")
        return "44 111" in str(child.before)

    until(resized, "the terminal is as large as the window")
    child.send("\x10\x11")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "RUNNING" in world.ok("get", "lab").out
