"""Nodes over SSH from the command line: checked, probed, remembered, and explained when they fail."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from providers.machines.connections import close_connections
from providers.probe import probe_local
from tests.bai.conftest import Repo
from tests.lab.sshd import SshdNode, SshdNodes
from tests.lab.stores import NAME, declared, owner_file

pytestmark = pytest.mark.xdist_group("sshd")

CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: far}}
spec:
  provider: declared
  ssh: {{user: root, keyFrom: lab/key, knownHostsFrom: lab/known_hosts, connectTimeout: 60s}}
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
metadata: {{name: {name}}}
spec: {{address: {address}, ssh: {ssh}}}
"""


@pytest.fixture
def far(tmp_path: Path, sshd_nodes: SshdNodes) -> Repo:
    """Two nodes: `one` is fine, `two` has a host key that nobody knows."""
    close_connections()
    one, two = sshd_nodes(2)
    folder = tmp_path / "repository"
    folder.mkdir()
    stores = [
        declared(sshd_nodes.folder, "key", "known_hosts"),
        declared(tmp_path, "other", name="own"),
    ]
    repo = Repo(
        folder,
        {
            "COLUMNS": "120",
            "XDG_STATE_HOME": str(tmp_path),
            "HOME": str(tmp_path),
            "BAI_SECRET_STORES": str(owner_file(tmp_path / NAME, *stores)),
        },
    )
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/known_hosts").touch()
    (tmp_path / "other").write_text("# nobody\n")
    nodes = [
        NODE.format(name="one", address=one.address, ssh="{}"),
        NODE.format(name="two", address=two.address, ssh=json.dumps({"knownHostsFrom": "own/other"})),
    ]
    cluster = CLUSTER.format()
    repo.write("cluster.yaml", cluster + "".join(nodes))
    return repo


def trust(node: SshdNode, known: Path) -> None:
    """What the message says to do."""
    scanned = subprocess.run(
        ["ssh-keyscan", "-T", "60", node.address], capture_output=True, check=True, timeout=300
    ).stdout
    known.write_bytes(known.read_bytes() + scanned)
    close_connections()  # as the next command's process


def test_nodes_are_checked(far: Repo, sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    said = far("nodes", "check")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[1].split()[0] == "one" and "root, " in lines[1]
    assert "failed" in lines[2]
    assert "two: The host key of node two" in said.out
    assert f"ssh-keyscan {sshd_nodes(2)[1].address} >> {tmp_path}/.ssh/known_hosts" in said.out
    assert far.ok("nodes", "check", "one", "--format", "json").json["nodes"][0]["user"] == "root"
    trust(sshd_nodes(2)[1], tmp_path / ".ssh/known_hosts")
    far.ok("nodes", "check")


def test_nodes_are_probed_and_remembered(far: Repo, sshd_nodes: SshdNodes, tmp_path: Path) -> None:
    assert json.loads(far.ok("nodes", "probe", "one").out)["numaNodes"]
    said = far("nodes", "probe", "--all")
    assert said.code == 1
    assert said.out.startswith("one: ") and "(as before)" in said.out
    assert "error: two could not be probed: The host key of node two" in said.err
    trust(sshd_nodes(2)[1], tmp_path / ".ssh/known_hosts")
    said = far.ok("nodes", "probe", "one", "two")
    assert said.out.splitlines()[1].startswith("two: ") and "(as before)" not in said.out.splitlines()[1]
    cores = sum(len(numa.cpus) for numa in probe_local().numa_nodes)
    for line in far.ok("nodes", "list", "--offline").out.splitlines()[1:]:
        assert f"0/{cores}" in line, "the store knows what was probed"


def test_one_node_is_written_to_a_file(far: Repo, tmp_path: Path) -> None:
    out = tmp_path / "one.json"
    far.ok("nodes", "probe", "one", "--out", str(out))
    assert json.loads(out.read_text())["numaNodes"]
    for words in (["one", "two", "--out", str(out)], ["one", "--root", "/x"], ["three"]):
        said = far("nodes", "probe", *words)
        assert (said.code, said.out) == (1, "")
        assert "Traceback" not in said.err


def test_the_doctor_asks_nodes(far: Repo) -> None:
    said = far("doctor", "--format", "json")
    found = {each["name"]: each for each in said.json["findings"]}
    assert said.code == 1
    assert found["nodes"]["message"].startswith("1 node answered")
    assert found["node two"]["status"] == "failed"
    assert "ssh-keyscan" in found["node two"]["hint"]
    assert found["a session"]["status"] == "skipped", "no session of this cluster runs here"


def test_the_doctor_asks_the_engine_of_this_machine(repo: Repo, tmp_path: Path) -> None:
    none = tmp_path / "none.sock"
    cluster = (repo.root / "cluster.yaml").read_text()
    wanted = cluster.replace("provider: process", f"provider: docker, docker: {{socket: {none}}}")
    assert wanted != cluster
    repo.write("cluster.yaml", wanted)
    said = repo("doctor", "--format", "json")
    found = {each["name"]: each for each in said.json["findings"]}
    assert (said.code, found["node localhost"]["status"]) == (1, "failed")
    assert f"{none}: no such file or directory" in found["node localhost"]["message"]
