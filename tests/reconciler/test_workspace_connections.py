"""Whoever closes a workspace closes all that was opened for it, and nothing that was given to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.fake import FakeProvider
from providers.storage.nodes import NodeStorage
from reconciler.workspace.workspace import Workspace

CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: cpu}
spec: {}
"""
NODE = """\
apiVersion: bai/v1
kind: Node
metadata: {name: n0}
spec: {resourceGroup: cpu}
"""


class Counted(FakeProvider):
    """How often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class CountedStorage(NodeStorage):
    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Counted], list[CountedStorage]]:
    """Every provider and storage that workspaces open, in order."""
    providers: list[Counted] = []
    storages: list[CountedStorage] = []

    def open_provider(*_: object, **__: object) -> Counted:
        providers.append(Counted())
        return providers[-1]

    def open_storage(*_: object) -> CountedStorage:
        storages.append(CountedStorage(lambda _: None))
        return storages[-1]

    monkeypatch.setattr("providers.registry.open_provider", open_provider)
    monkeypatch.setattr("reconciler.observe.storage_access.open_storage", open_storage)
    monkeypatch.delenv("BAI_STATE", raising=False)
    return providers, storages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "node.yaml").write_text(NODE)
    return tmp_path


Opened = tuple[list[Counted], list[CountedStorage]]


def test_what_was_opened_is_closed_once(folder: Path, opened: Opened) -> None:
    with Workspace.open(folder) as workspace:
        assert workspace.provider is opened[0][0] and workspace.storage is opened[1][0]
    assert [[one.closed for one in each] for each in opened] == [[1], [1]]
    workspace.close()
    assert [[one.closed for one in each] for each in opened] == [[1], [1]]


def test_what_nobody_needed_is_not_opened_to_be_closed(folder: Path, opened: Opened) -> None:
    with Workspace.open(folder):
        pass
    assert opened == ([], [])


def test_a_provider_that_was_given_is_not_the_workspaces_to_close(folder: Path, opened: Opened) -> None:
    given = Counted()
    with Workspace.open(folder) as workspace:
        workspace.provider = given
    assert given.closed == 0 and opened == ([], [])


def test_documents_that_change_no_node_keep_the_connections(folder: Path, opened: Opened) -> None:
    before = Workspace.open(folder)
    used = before.provider, before.storage, before.store
    (folder / "group.yaml").write_text(
        "apiVersion: bai/v1\nkind: ResourceGroup\nmetadata: {name: gpu}\nspec: {}\n"
    )
    with before.reloaded() as after:
        assert after is not before and (after.provider, after.storage, after.store) == used
        assert [[one.closed for one in each] for each in opened] == [[0], [0]]
    assert [[one.closed for one in each] for each in opened] == [[1], [1]]


def test_another_node_is_reached_by_other_connections(folder: Path, opened: Opened) -> None:
    before = Workspace.open(folder)
    assert before.provider and before.storage
    (folder / "node.yaml").write_text(NODE.replace("n0", "n1"))
    with before.reloaded() as after:
        assert after.provider is not opened[0][0] and after.storage is not opened[1][0]
        assert [[one.closed for one in each] for each in opened] == [[1, 0], [1, 0]]
    assert [[one.closed for one in each] for each in opened] == [[1, 1], [1, 1]]


def test_a_store_that_was_only_read_is_closed_by_who_reads_on(folder: Path, opened: Opened) -> None:
    with Workspace.open(folder) as first:
        assert first.store
    before = Workspace.open(folder)
    reader = before.reader
    (folder / "node.yaml").write_text(NODE.replace("n0", "n1"))
    with before.reloaded() as after:
        assert after.reader is reader
