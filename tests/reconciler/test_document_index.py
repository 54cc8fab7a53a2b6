"""What documents want is remembered between commands, and changes nothing but time: whatever is wrong with an
index, it is as if there were none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.sources import document_index, sealed_files
from reconciler.sources.document_index import DocumentIndex
from reconciler.sources.sealed_files import user_cache_folder
from reconciler.sources.source import open_source
from reconciler.workspace.kernel_access import open_kernel_access
from reconciler.workspace.workspace import Workspace
from schemas.repository.declared_stores import OwnerStores

CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: declared}
---
apiVersion: bai/v1
kind: NodePool
metadata: {name: dgx}
spec: {resourceGroup: all, hardwareFrom: dgx.json, namePattern: "dgx-[1-2]"}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
"""
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {name: NAME, project: p}
spec: {command: [sh], resources: {cpu: 1, memory: 1GiB}}
"""
CAPTURE = Path(__file__).parents[2] / "examples" / "clusters" / "dgx-h100" / "hardware" / "dgx-h100.json"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bai" / "documents"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    (made / "cluster.yaml").write_text(CLUSTER)
    (made / "a.yaml").write_text(SESSION.replace("NAME", "a"))
    (made / "dgx.json").write_bytes(CAPTURE.read_bytes())
    return made


def index_of(folder: Path, about: str = "digests here") -> DocumentIndex:
    found = user_cache_folder()
    assert found is not None
    return DocumentIndex(open_source(folder), about, found)


def loaded(folder: Path) -> dict[str, str]:
    """As all documents say, which are indexed with that."""
    with Workspace.open(folder) as workspace:
        return dict(workspace.index_digests())


def known(folder: Path) -> dict[str, str] | None:
    found = index_of(folder).read()
    return None if found is None else dict(found)


def test_it_says_what_all_documents_say(folder: Path, cache: Path) -> None:
    assert known(folder) is None
    digests = loaded(folder)
    assert known(folder) == digests and "Session/p/a" in digests
    access = open_kernel_access(open_source(folder), None, None)
    assert access is not None and access.indexed_digests() == digests
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and cache.stat().st_mode & 0o777 == 0o700


CHANGES: dict[str, Callable[[Path], object]] = {
    "a document": lambda folder: (folder / "a.yaml").write_text(SESSION.replace("NAME", "b")),
    "one more": lambda folder: (folder / "b.yaml").write_text(SESSION.replace("NAME", "b")),
    "another name": lambda folder: (folder / "a.yaml").rename(folder / "b.yaml"),
    "none": lambda folder: (folder / "a.yaml").unlink(),
    "hardware": lambda folder: (folder / "dgx.json").write_bytes(CAPTURE.read_bytes() + b"\n"),
    "no hardware": lambda folder: (folder / "dgx.json").unlink(),
    "a mistake": lambda folder: (folder / "b.yaml").write_text("a: ["),
    "a link": lambda folder: os.symlink("/etc/passwd", folder / "b.yaml"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_it_counts_for_what_it_was_made_of(folder: Path, change: Callable[[Path], object]) -> None:
    loaded(folder)
    change(folder)
    assert known(folder) is None


def test_bytes_do_not_move_from_one_file_to_another(folder: Path) -> None:
    (folder / "a.yaml").write_text("# one\n" + SESSION.replace("NAME", "a"))
    (folder / "b.yaml").write_text("# two\n")
    loaded(folder)
    (folder / "a.yaml").write_text("# one\n")
    (folder / "b.yaml").write_text(SESSION.replace("NAME", "a") + "# two\n")
    assert known(folder) is None


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "changed": lambda file: file.write_bytes(file.read_bytes().replace(b"Session/p/a", b"Session/p/z")),
    "no text": lambda file: file.write_bytes(b"\xff" * 100),
    "another version": lambda file: file.write_bytes(file.read_bytes().replace(b"index/2", b"index/9")),
    "others may write": lambda file: file.chmod(0o660),
    "the folder is open": lambda file: file.parent.chmod(0o777),
    "a link": lambda file: (file.rename(file.with_suffix(".x")), file.symlink_to(file.with_suffix(".x"))),
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_what_is_not_whole_or_not_ours_does_not_count(
    folder: Path, cache: Path, damage: Callable[[Path], object]
) -> None:
    digests = loaded(folder)
    (file,) = cache.iterdir()
    damage(file)
    assert known(folder) is None
    assert loaded(folder) == digests, "nor does it stand in anybody's way"


@pytest.mark.parametrize("content", ["[]", "1", '{"key": 1}', '{"answer": [], "others": {}}'])
def test_what_was_well_sealed_but_is_none_does_not_count(folder: Path, cache: Path, content: str) -> None:
    loaded(folder)
    (file,) = cache.iterdir()
    file.write_text(f"{document_index.FORMAT} {sealed_files.digest_of(content.encode())}\n{content}")
    assert known(folder) is None


def test_another_users_does_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(folder)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert known(folder) is None


def test_neither_does_what_other_code_has_judged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(folder)
    monkeypatch.setattr(document_index, "code_fingerprint", lambda code: "newer")
    assert known(folder) is None


def test_nobody_needs_to_be_able_to_write_it(folder: Path, cache: Path) -> None:
    cache.parent.parent.mkdir()
    cache.parent.write_text("no folder")
    assert "Session/p/a" in loaded(folder) and known(folder) is None


def test_who_writes_last_wins_and_the_oldest_go(folder: Path, cache: Path) -> None:
    digests = loaded(folder)
    for number in range(sealed_files.MOST_FILES + 3):
        with Workspace.open(folder) as workspace:
            written = index_of(folder, f"digests cluster-{number}")
            written.write(digests, workspace.repository, workspace.document_cache)
    assert len([*cache.iterdir()]) == sealed_files.MOST_FILES
    assert index_of(folder, f"digests cluster-{number}").read() == digests
    assert known(folder) is None, "it was the oldest"


def test_there_is_none_of_commits_nor_beside_an_owners_stores(folder: Path) -> None:
    loaded(folder)
    index = index_of(folder)
    for source in (
        open_source(folder, "HEAD"),
        replace(index.source, owner=OwnerStores({}, True)),
        replace(index.source, left_out=frozenset({"a.yaml"})),
    ):
        assert DocumentIndex(source, index.about, index.folder).read() is None


def test_a_strangers_plugin_has_its_say_each_time(folder: Path, cache: Path) -> None:
    (folder / "cluster.yaml").write_text(CLUSTER.replace("name: all}", "name: all}\nspec: {queue: strange}"))
    loaded(folder)
    assert known(folder) is None and not cache.exists()


def test_it_holds_no_more_than_identities_and_digests(folder: Path, cache: Path) -> None:
    digests = loaded(folder)
    (file,) = cache.iterdir()
    content = json.loads(file.read_text().partition("\n")[2])
    assert content["answer"] == digests and content.keys() == {"key", "others", "answer"}
    assert content["others"].keys() == {"dgx.json"}
