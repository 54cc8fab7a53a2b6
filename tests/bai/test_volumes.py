"""Volumes by the command: listed, described, deleted, restored and purged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.cli.doctor.storage import enforcement_findings
from tests.bai.conftest import Repo, new_repo, tidy

VOLUMES = """\
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{root: {0}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: data, project: demo}}
spec: {{mode: "0700", quota: 1GiB}}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = new_repo(tmp_path)
    (tmp_path / "disk").mkdir()
    made.write("volumes.yaml", VOLUMES.format(tmp_path / "disk"))
    yield made
    tidy(made)


def test_a_volumes_life(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "disk" / "demo" / "data"
    assert "not made yet" in repo.ok("volumes").out
    repo.ok("apply", "--yes")
    empty = repo.ok("volumes", "trash")
    assert (empty.out, empty.err) == ("", "The trash is empty.\n")
    assert repo.ok("volumes", "trash", "--format", "json").json["items"] == []
    (folder / "file").write_bytes(bytes(100_000))
    [item] = repo.ok("volumes", "--format", "json").json["items"]
    assert (item["id"], item["state"], item["mode"]) == ("Volume/demo/data", "there", "0700")
    assert item["used"] >= 100_000
    assert "demo/data" in repo.ok("get", "volumes", "--usage").out
    assert repo.ok("get", "volumes", "data", "--usage", "-o", "json").json["items"] == [item]
    described = repo.ok("describe", "volume/data")
    assert f"folder      {folder}" in described.out
    assert repo.ok("describe", "data", "--format", "json").json["folder"]["folder"] == str(folder)

    document = (repo.root / "volumes.yaml").read_text()
    repo.write("volumes.yaml", document.partition("---")[0])
    assert "its folder goes to the trash of disk" in repo.ok("plan").out
    repo.ok("apply", "--yes")
    assert not folder.exists()
    [entry] = repo.ok("volumes", "trash", "--format", "json").json["items"]
    assert (entry["volume"], entry["storageHost"]) == ("Volume/demo/data", "disk")
    assert entry["entry"] in repo.ok("volumes", "trash").out

    assert repo("volumes", "restore", "data").code == 1
    assert not folder.exists()
    repo.ok("volumes", "restore", "data", "--yes")
    assert (folder / "file").exists()
    repo.write("volumes.yaml", document)
    repo.ok("apply", "--yes")
    assert (folder / "file").exists()

    repo.write("volumes.yaml", document.partition("---")[0])
    repo.ok("apply", "--yes")
    refused = repo("volumes", "purge", "data")
    assert (refused.code, "BAI-E0603" in refused.err) == (1, True)
    repo.ok("volumes", "purge", "demo/data", "--yes")
    assert list((tmp_path / "disk" / ".bai-trash").iterdir()) == []
    missing = repo("volumes", "purge", "data", "--yes")
    assert (missing.code, "BAI-E0601" in missing.err) == (1, True)


def test_two_of_one_name_must_be_told_apart(repo: Repo) -> None:
    document = (repo.root / "volumes.yaml").read_text()
    for _ in range(2):
        repo.write("volumes.yaml", document)
        repo.ok("apply", "--yes")
        repo.write("volumes.yaml", document.partition("---")[0])
        repo.ok("apply", "--yes")
    entries = [item["entry"] for item in repo.ok("volumes", "trash", "--format", "json").json["items"]]
    assert len(entries) == 2
    said = repo("volumes", "purge", "data", "--yes")
    assert (said.code, "BAI-E0602" in said.err) == (1, True)
    repo.ok("volumes", "purge", entries[0], "--yes")
    repo.ok("volumes", "purge", "data", "--yes")


def test_the_doctor_looks_at_volumes(repo: Repo) -> None:
    def said() -> list[tuple[str, str, str]]:
        findings = repo("doctor", "--format", "json").json["findings"]
        return [
            (each["status"], each["message"], each["hint"]) for each in findings if each["name"] == "volumes"
        ]

    [(status, message, _)] = said()
    assert status == "ok" or "quota is not enforced" in message
    text = (repo.root / "volumes.yaml").read_text().replace("root:", "fileSystems: [lustre], root:")
    repo.write("volumes.yaml", text)
    [(status, message, hint)] = said()
    assert (status, "is not mounted" in message) == ("failed", True)
    assert hint == "mount it, or name its type in fileSystems"


def test_the_doctor_says_which_nodes_enforce() -> None:
    told = {"a": {"mps": ""}, "b": {"mps": "it is in MIG mode"}, "c": None}
    found = [(each.status, each.message) for each in enforcement_findings("shared", "mps", told)]
    assert found == [
        ("warning", "group shared, node b: no mps: it is in MIG mode"),
        ("warning", "group shared, node c: no mps: it cannot be reached"),
        ("ok", "group shared: 1 of 3 nodes enforce mps"),
    ]


def test_usage_is_for_volumes(repo: Repo) -> None:
    said = repo("get", "sessions", "--usage")
    assert (said.code, "bai top" in said.err) == (1, True)


def test_where_volumes_are_no_folders_the_trash_says_so(repo: Repo) -> None:
    cluster = next(repo.root.glob("*.yaml"))
    for path in repo.root.glob("*.yaml"):
        if "kind: Cluster" in path.read_text():
            cluster = path
    cluster.write_text(cluster.read_text().replace("provider: process", "provider: declared"))
    said = repo("volumes", "trash")
    assert (said.code, "not folders" in said.err) == (1, True)
