"""The commands on a cluster whose nodes are provisioned: fake machines, a fake world, the rest is real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.fake import FakeProvider, World
from providers.fake_provisioner import FakeNodes, FakeProvisioner, NodeFault
from tests.bai.conftest import Repo
from tests.reconciler.gitops.repositories import git
from tests.reconciler.lab import BASE, NODE, session
from tests.reconciler.nodes.lab import profile

NAMES = ("n1", "n2", "n3")


class Cluster:
    """A repository, its machines, and the command."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.repo = Repo(folder, {"COLUMNS": "160"})
        self.world = World()
        self.machines = FakeNodes(NAMES)
        base = BASE.replace("spec: {provider: fake}", "spec: {provider: fake, profile: std}")
        self.repo.write("base.yaml", base)
        self.repo.write("nodes.yaml", "---".join(NODE.format(name=name) for name in NAMES))
        self.repo.write("profile.yaml", profile())

    def ok(self, *words: str) -> str:
        return self.repo.ok(*words).out


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "repo")
    monkeypatch.setattr("providers.ansible.open_provisioner", lambda *a, **k: FakeProvisioner(made.machines))
    monkeypatch.setattr("providers.registry.open_provider", lambda *a, **k: FakeProvider(made.world))
    yield made


def test_one_command_brings_bare_nodes_to_running_sessions(cluster: Cluster) -> None:
    cluster.repo.write("a.yaml", session("a", "resources: {cpu: 1, memory: 1GiB}"))
    plan = cluster.ok("plan")
    assert "* Node/n1  never provisioned" in plan
    assert "base: Set up base" in plan
    assert "this wave: n1 (1 task would change something)" in plan
    assert "then: n2, n3 (1 task would change something each)" in plan
    assert "take no sessions before they are provisioned: n1, n2, n3: never provisioned" in plan
    assert "1 to provision (then 2 more)" in plan
    said = cluster.ok("apply", "--yes")
    assert "Node/n1: verified and sealed" in said and "Node/n1: provisioned" in said
    assert "Next wave: n2, n3." in said
    assert "Session/p/a: created" in said
    assert [len(cluster.machines.nodes[name].stamp.profile) for name in NAMES]  # type: ignore[union-attr]
    assert len(cluster.world.kernels) == 1
    assert "No changes." in cluster.ok("plan")
    assert cluster.repo("plan", "--detailed-exitcode").code == 0


@pytest.mark.parametrize("provisioned", [False, True])
def test_what_was_reviewed_from_afar_is_carried_out(cluster: Cluster, provisioned: bool) -> None:
    """Who reviews asks no node, and who applies has asked them all: it is the same change."""
    root = cluster.repo.root
    if provisioned:
        cluster.ok("apply", "--yes", "--no-check")
    cluster.repo.write(".gitignore", ".bai\n")
    git(root, "init", "--quiet")
    commits = []
    for name in ("a", "b"):
        cluster.repo.write(f"{name}.yaml", session(name, "resources: {cpu: 1, memory: 1GiB}"))
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", name)
        commits.append(git(root, "rev-parse", "HEAD"))
    digest = cluster.repo.ok("review", "--base", commits[0], "--format", "json").json["digest"]
    cluster.machines.drift("n2", "sysctl vm.swappiness", "1", "60")
    said = cluster.ok("apply", "--yes", "--no-check", "--base", commits[0], "--reviewed", digest)
    assert "Session/p/a: created" in said and "Session/p/b: created" in said


def test_a_failure_is_told_and_the_next_apply_resumes(cluster: Cluster) -> None:
    cluster.machines.inject(NodeFault("n1", "half", why="apt: no such version"))
    said = cluster.repo("apply", "--yes", "--no-check")
    assert said.code == 1
    assert "failed: Node/n1: BAI-E0352" in said.out and "apt: no such version" in said.out
    assert "Next wave" not in said.out
    listed = json.loads(cluster.ok("nodes", "list", "--format", "json"))["nodes"]
    assert {one["name"]: one["provisioning"]["state"] for one in listed} == {
        "n1": "failed", "n2": "never", "n3": "never",
    }  # fmt: skip
    assert all(one["state"] == "unprovisioned" and one["profile"] == "std" for one in listed)
    assert "Node/n1  its provisioning failed" in cluster.ok("plan", "--no-check")
    assert "Applied" in cluster.ok("apply", "--yes", "--no-check")
    table = cluster.ok("nodes", "list")
    assert "PROVISIONED" in table and table.count("yes") == 3
    assert "FAILED" in cluster.ok("events", "Node/n1") and "READY" in cluster.ok("events", "Node/n1")


def test_a_saved_plan_is_one_wave(cluster: Cluster, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    cluster.ok("plan", "--out", str(saved))
    kept = json.loads(saved.read_text())["plan"]
    assert kept["rollout"]["wave"] == ["n1"] and kept["rollout"]["later"] == [["n2", "n3"]]
    said = cluster.ok("apply", str(saved))
    assert "2 nodes are left to provision" in said
    assert [cluster.machines.nodes[name].provisioned for name in NAMES] == [1, 0, 0]
    again = cluster.repo("apply", str(saved))
    assert again.code == 1 and "BAI-E0501" in again.err


def test_a_plan_made_with_other_roles_is_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "plan.json"
    cluster.ok("plan", "--out", str(saved), "--no-check")
    monkeypatch.setattr("reconciler.observe.node_status.role_digest", lambda roles: "f" * 64)
    said = cluster.repo("apply", str(saved))
    assert said.code == 1 and "the roles of this bai are not those" in said.err
    assert cluster.machines.nodes["n1"].provisioned == 0


def test_drift_is_shown_and_repaired(cluster: Cluster) -> None:
    cluster.ok("apply", "--yes", "--no-check")
    cluster.machines.drift("n2", "sysctl vm.swappiness", "1", "60")
    plan = cluster.ok("plan")
    assert "Node/n2" in plan and "sysctl vm.swappiness is 60, sealed 1" in plan
    assert "drift: sysctl vm.swappiness is 60, sealed 1" in cluster.ok("nodes", "show", "n2")
    assert "| `*` | `Node/n2` |" in cluster.ok("plan", "--format", "markdown")
    cluster.ok("apply", "--yes")
    assert "as its profile says" not in cluster.ok("nodes", "show", "n2")
    assert "No changes" in cluster.ok("plan")


def test_a_node_that_does_not_stay_as_it_is_made_is_no_endless_story(cluster: Cluster) -> None:
    cluster.ok("apply", "--yes", "--no-check")
    cluster.machines.drift("n1", "file /etc/hosts", "a", "b")
    cluster.machines.at = lambda node, moment: (
        cluster.machines.drift(node, "file /etc/hosts", "a", "b") if moment == "after" else None
    )
    said = cluster.repo("apply", "--yes", "--no-check")
    assert said.code == 1 and "is to be provisioned again: drift: file /etc/hosts" in said.err
    assert cluster.machines.nodes["n1"].provisioned == 2


def test_offline_nobody_is_asked(cluster: Cluster) -> None:
    assert "* Node/n1  never provisioned" in cluster.ok("plan", "--offline")
    assert "never" in cluster.ok("nodes", "list", "--offline")
    assert not cluster.machines.log


def test_the_loop_goes_through_all_waves_in_one_pass(cluster: Cluster) -> None:
    cluster.repo.write("a.yaml", session("a", "resources: {cpu: 1, memory: 1GiB}"))
    said = cluster.ok("reconcile", "--once")
    assert "provisioned Node/n1: never provisioned" in said and "provisioned Node/n3" in said
    assert len(cluster.world.kernels) == 1


def test_explain_says_what_a_session_waits_for(cluster: Cluster) -> None:
    cluster.repo.write("a.yaml", session("a", "resources: {cpu: 1, memory: 1GiB}"))
    said = cluster.ok("explain", "a")
    assert "take no sessions before they are provisioned" in said
    assert "is unprovisioned (never provisioned)" in said or "to be provisioned" in said
