"""What was loaded before is used again only for what has not changed."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.files import file_memory
from schemas.files.file_memory import FileMemory
from schemas.files.sources import DirectorySource
from schemas.loading import known_values, parsed_file
from schemas.loading.document_cache import DocumentCache
from schemas.loading.known_values import KnownValues
from schemas.loading.loader import load_directory
from schemas.problems.errors.repository import InvalidRepository
from schemas.repository.repository import Repository
from schemas.rules import membership
from schemas.values.envelope import Resource
from schemas.values.memo import Memo
from tests.schemas.edits import EDITS, GROUP, PROJECT, ROOT_GROUP, SESSION, START, Edit, make

OTHER = SESSION.format(name="s1", cpu=2, more="")


def loaded(folder: Path, cache: DocumentCache | None = None) -> Repository | list[str]:
    """A repository, or all that is wrong with it."""
    try:
        return load_directory(folder, cache=cache)
    except InvalidRepository as error:
        return [*map(str, error.problems)]


def in_order(found: Repository | list[str]) -> object:
    return (list(found.resources), list(found.locations)) if isinstance(found, Repository) else found


def written(folder: Path) -> Path:
    for edit in START:
        make(folder, edit)
    return folder


@settings(max_examples=40)
@given(st.lists(EDITS, max_size=8))
def test_it_is_what_loading_anew_gives_after_any_change(edits: list[Edit]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = written(Path(name))
        cache = DocumentCache()
        assert isinstance(loaded(folder, cache), Repository)
        for edit in edits:
            make(folder, edit)
            anew = loaded(folder)
            assert loaded(folder, cache.fork()) == anew, "what another thread takes along"
            found = loaded(folder, cache)
            assert found == anew and in_order(found) == in_order(anew)


@settings(max_examples=40)
@given(st.lists(EDITS, max_size=8))
def test_values_that_another_process_has_left_are_what_the_files_say(edits: list[Edit]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = written(Path(name))
        known = KnownValues({})
        assert isinstance(loaded(folder, DocumentCache(known.parse)), Repository)
        assert known.parsed == known.asked == len(START)
        kept = json.loads(json.dumps(known.values()))
        for edit in edits:
            make(folder, edit)
            anew, again = loaded(folder), KnownValues(kept)
            assert loaded(folder, DocumentCache(again.parse)) == anew
            if isinstance(anew, Repository):
                kept = json.loads(json.dumps(again.values()))


def test_what_aliases_stand_for_is_never_written_out(tmp_path: Path) -> None:
    """A committer could make a hundred times what the files hold of it."""
    long = "x" * 10_000
    aliases = ", ".join(f"A{number}: *a" for number in range(100))
    text = SESSION.format(name="s1", cpu=1, more=f", env: {{A: &a {long}, {aliases}}}")
    (tmp_path / "session.yaml").write_text(text)
    (tmp_path / "other.yaml").write_text(PROJECT)
    known = KnownValues({})
    files = list(DirectorySource(tmp_path).files())
    assert all(not known.parse(file).problems for file in files)
    (documents,) = known.values().values()
    assert [document[0]["kind"] for document in documents] == ["Project"]


def test_of_too_much_nothing_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownValues({})
    (tmp_path / "other.yaml").write_text(PROJECT)
    for file in DirectorySource(tmp_path).files():
        known.parse(file)
    assert known.values()
    monkeypatch.setattr(known_values, "MOST_BYTES", len(PROJECT) - 1)
    assert known.values() == {}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose YAML was read."""
    names: list[str] = []
    read = parsed_file.read_documents

    def counted(data: bytes, name: str) -> object:
        names.append(name)
        return read(data, name)

    monkeypatch.setattr(parsed_file, "read_documents", counted)
    return names


def test_only_what_has_changed_is_parsed(tmp_path: Path, parsed: list[str]) -> None:
    folder, cache = written(tmp_path), DocumentCache()
    first = load_directory(folder, cache=cache)
    assert sorted(parsed) == sorted(name for _, name, _ in START)
    parsed.clear()
    assert load_directory(folder, cache=cache) is first and parsed == []
    make(folder, ("write", "session-1.yaml", SESSION.format(name="s1", cpu=2, more="")))
    second = load_directory(folder, cache=cache)
    assert parsed == ["session-1.yaml"]
    same = {each for each in first.resources if second.resources[each] is first.resources[each]}
    assert first.resources.keys() - same == {"Session/vision/s1"}
    assert all(second.machines[name] is node for name, node in first.machines.items())


ALONE = SESSION.format(name="s9", cpu=1, more="")
CHANGED_SESSIONS: Mapping[str, Sequence[Edit]] = {
    "one is new": [("write", "new.yaml", ALONE)],
    "one is new in a file of others": [("write", "session-1.yaml", f"{ALONE}---\n{OTHER}")],
    "one is another one": [("write", "session-1.yaml", ALONE)],
    "one is gone of whom another needs that it runs": [
        ("write", "waits.yaml", SESSION.format(name="s8", cpu=1, more=", dependsOn: [Session/vision/s1]")),
        ("write", "session-1.yaml", ALONE),
    ],
    "one stands twice": [("write", "new.yaml", OTHER)],
    "one stands twice in a file": [("write", "new.yaml", f"{ALONE}---\n{ALONE}")],
    "its group is not there": [
        ("write", "new.yaml", SESSION.format(name="s9", cpu=1, more=", resourceGroup: none"))
    ],
    "something else stands beside it": [
        ("write", "session-1.yaml", f"{OTHER}---\n{GROUP.format(name='more')}")
    ],
    "it is named as what a pool is read from": [("write", "captured.yaml", ALONE)],
    "it is named as what a pool may be read from": [("write", "sub/captured.yaml", ALONE)],
    "its file is no document": [("write", "new.yaml", "a: 1\n")],
    "its file is empty": [("write", "session-1.yaml", "")],
    "its file is gone": [("remove", "session-1.yaml", "")],
}


@pytest.mark.parametrize("edits", CHANGED_SESSIONS.values(), ids=CHANGED_SESSIONS)
def test_where_only_sessions_have_changed(tmp_path: Path, edits: Sequence[Edit]) -> None:
    folder, cache = written(tmp_path), DocumentCache()
    for edit in edits:
        load_directory(folder, cache=cache)
        make(folder, edit)
    found = loaded(folder, cache)
    assert found == loaded(folder) and in_order(found) == in_order(loaded(folder))


def test_another_thread_takes_along_what_is_known_and_leaves_it(tmp_path: Path, parsed: list[str]) -> None:
    folder, cache = written(tmp_path), DocumentCache()
    first = load_directory(folder, cache=cache)
    make(folder, ("write", "session-1.yaml", SESSION.format(name="s1", cpu=2, more="")))
    for _ in range(2):
        parsed.clear()
        load_directory(folder, cache=cache.fork())
        assert parsed == ["session-1.yaml"]
    make(folder, START[[name for _, name, _ in START].index("session-1.yaml")])
    parsed.clear()
    assert load_directory(folder, cache=cache) is first and parsed == []


def test_a_capture_that_changes_is_noticed(tmp_path: Path) -> None:
    folder, cache = written(tmp_path), DocumentCache()
    first = load_directory(folder, cache=cache)
    text = (folder / "captured.yaml").read_text()
    (folder / "captured.yaml").write_text(text.replace("x86_64", "aarch64"))
    second = load_directory(folder, cache=cache)
    architectures = [
        {node.spec.hardware.architecture for node in each.machines.values() if node.spec.hardware}
        for each in (first, second)
    ]
    assert architectures == [{"x86_64"}, {"aarch64"}]


def settle(path: Path, text: str) -> None:
    """Written when the file system's clock has gone on since it was written last."""
    before = path.stat().st_ctime_ns if path.exists() else 0
    while not path.exists() or path.stat().st_ctime_ns == before:
        path.write_text(text)


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    read = file_memory.open_regular_file

    def counted(path: str | os.PathLike[str]) -> int:
        opened.append(os.fspath(path))
        return read(path)

    monkeypatch.setattr(file_memory, "open_regular_file", counted)
    memory = FileMemory(now=lambda: time.time() + 60)
    path = tmp_path / "a"
    settle(path, "one")
    first = memory.read(path, 10)
    assert memory.read(path, 10) is first == b"one" and len(opened) == 1
    settle(path, "two")
    os.utime(path, ns=(0, 0))
    assert memory.read(path, 10) == b"two" and len(opened) == 2
    # As whoever wants to hide a change would do it: the same size, and the times of before.
    times = path.stat()
    settle(path, "six")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert memory.read(path, 10) == b"six" and len(opened) == 3
    os.replace(path, tmp_path / "b")
    settle(path, "ten")
    assert memory.read(path, 10) == b"ten"
    with pytest.raises(OSError, match="larger"):
        settle(path, "much more than ten")
        memory.read(path, 10)
    assert memory.read(path, 100) == b"much more than ten"
    with pytest.raises(OSError, match="larger"):
        memory.read(path, 10)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        memory.read(path, 10)


def test_a_change_in_the_same_tick_of_the_clock_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_memory, "_signature", lambda _: (1,))
    path = tmp_path / "a"
    for since, seen in ((0.0, b"two"), (file_memory.SETTLED + 1, b"one")):
        path.write_text("one")
        memory = FileMemory(now=lambda since=since: path.stat().st_ctime + since)
        assert memory.read(path, 10) == b"one"
        path.write_text("two")
        assert memory.read(path, 10) == seen


def test_what_is_the_same_stays_the_same_object(tmp_path: Path) -> None:
    path, memory = tmp_path / "a", FileMemory()
    path.write_text("one")
    first = memory.read(path, 10)
    path.write_text("one")
    assert memory.read(path, 10) is first


def test_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    path, memory = tmp_path / "a", FileMemory()
    path.write_text("one")
    first = memory.read(path, 10)
    memory.begin()
    memory.begin()
    assert memory.read(path, 10) is not first


def test_a_memo_gives_what_was_made_of_the_same() -> None:
    memo: Memo[str, list[int]] = Memo()
    first = memo.get("a", (1, "x"), lambda: [1])
    assert memo.get("a", (1, "x"), lambda: [2]) is first
    assert memo.get("b", (1, "x"), lambda: [3]) == [3]
    second = memo.get("a", (2, "x"), lambda: [4])
    assert second == [4] and memo.get("a", (2, "x"), lambda: [5]) is second
    memo.begin()
    assert memo.get("a", (2, "x"), lambda: [5]) is second
    memo.begin()
    assert memo.get("a", (2, "x"), lambda: [6]) is second and memo.get("b", (1, "x"), lambda: [7]) == [7]


def test_only_what_has_changed_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sessions; what is not one is judged each time, and counts for all of them."""
    judged: list[str] = []
    check = membership.check_membership

    def counted(repository: Repository, resource: Resource) -> object:
        judged.append(resource.identity)
        return check(repository, resource)

    def sessions() -> set[str]:
        found = {each for each in judged if each.startswith("Session/vision/s")}
        judged.clear()
        return found

    monkeypatch.setattr(membership, "check_membership", counted)
    folder, cache = written(tmp_path), DocumentCache()
    load_directory(folder, cache=cache)
    assert sessions() == {"Session/vision/s1", "Session/vision/s2"}
    rooted = SESSION.format(name="s1", cpu=1, more=", container: {user: root}")
    make(folder, ("write", "session-1.yaml", rooted))
    assert isinstance(refused := loaded(folder, cache), list) and "does not allow" in refused[0]
    assert sessions() == {"Session/vision/s1"}
    groups = ROOT_GROUP.format(name="g1") + "---\n" + GROUP.format(name="g2")
    make(folder, ("write", "group.yaml", groups))
    assert isinstance(loaded(folder, cache), Repository)
    assert sessions() == {"Session/vision/s1", "Session/vision/s2"}
    make(folder, ("write", "session-3.yaml", SESSION.format(name="s3", cpu=1, more="")))
    assert isinstance(loaded(folder, cache), Repository)
    assert sessions() == {"Session/vision/s3"}
