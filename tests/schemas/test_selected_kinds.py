"""Documents of some kinds alone: no other is parsed, and what is not clear is left to who loads all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemas.files.sources import DirectorySource
from schemas.files.yaml_reader import read_documents
from schemas.kinds.cluster import Cluster
from schemas.kinds.kind_registry import KINDS
from schemas.loading import selected_kinds
from schemas.loading.selected_kinds import load_kinds
from schemas.values.kind_names import KIND_NAMES

CLUSTER = "apiVersion: bai/v1\nkind: Cluster\nmetadata: {name: here}\nspec: {provider: process}\n"
SESSION = "apiVersion: bai/v1\nkind: Session\nmetadata: {name: a, project: p}\nspec: {command: [sh]}\n"


def test_the_names_of_kinds_are_those_of_the_registry() -> None:
    assert tuple(KINDS) == KIND_NAMES


def names(folder: Path) -> list[str] | None:
    found = load_kinds(DirectorySource(folder), {"Cluster": Cluster})
    return None if found is None else [each.name for each in found]


def test_only_files_that_may_hold_one_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(data: bytes, file: str) -> object:
        parsed.append(file)
        return read_documents(data, file)

    monkeypatch.setattr(selected_kinds, "read_documents", counted)
    (tmp_path / "cluster.yaml").write_text(f"{SESSION}---\n{CLUSTER}")
    for number in range(20):
        (tmp_path / f"session-{number}.yaml").write_text(SESSION + "# a \\\n# line that goes on\n")
    (tmp_path / "broken.yaml").write_text("neither: [bai's\n")
    assert names(tmp_path) == ["here"] and parsed == ["cluster.yaml"]


@pytest.mark.parametrize(
    "kind",
    [
        '"Cluster"',
        "'Cluster'",
        "&a Cluster",
        '"Clu\\x73ter"',
        '"Clu\\u0073ter"',
        '"Clu\\\n    ster"',
        "|-\n  Cluster",
    ],
    ids=repr,
)
def test_however_the_kind_is_written_it_is_found(tmp_path: Path, kind: str) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER.replace("Cluster", kind))
    assert names(tmp_path) == ["here"]


@pytest.mark.parametrize(
    "text",
    [
        CLUSTER.replace("provider", "privider"),
        CLUSTER.replace("bai/v1", "bai/v9"),
        CLUSTER.replace("{provider: process}", "{provider: process, docker: {state: /etc}}"),
        CLUSTER.replace("{name: here}", "{name: here, annotations: {bai/protect: maybe}}"),
        f"{CLUSTER}---\n{CLUSTER}",
        f"{CLUSTER}broken: [",
        CLUSTER.replace("kind: Cluster", "kind: !!str Cluster"),
    ],
    ids=["field", "version", "rule", "annotation", "twice", "yaml", "tag"],
)
def test_what_is_not_right_is_for_who_loads_all(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.yaml").write_text(text)
    assert names(tmp_path) is None


def test_so_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    os.symlink("/etc/passwd", tmp_path / "sessions.yaml")
    assert names(tmp_path) is None
