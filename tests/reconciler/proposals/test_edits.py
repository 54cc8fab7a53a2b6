"""Which files a change makes, and what one may touch: documents stay as they were but for what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.gitops.submit import FileChange
from reconciler.proposals.edits import Documents
from reconciler.proposals.overlay import ChangedSource, read_files
from reconciler.proposals.permission import foreign_documents
from schemas.files.sources import DirectorySource
from schemas.loading.loader import load, load_directory
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import AlreadyThere, CommandError
from schemas.problems.errors.repository import InvalidRepository
from tests.reconciler.lab import BASE, NODE, session

A = """\
apiVersion: bai/v1
kind: Session
metadata: {name: a, project: p}
spec:
  command: [sleep, inf]
  priority: 5  # soon
"""
TWO = f"{A}---\n# b is last\n{session('b', 'resources: {cpu: 1}').lstrip()}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "nodes.yaml").write_text(NODE.format(name="n1") + "---\n" + NODE.format(name="n2"))
    (tmp_path / "two.yaml").write_text(TWO)
    return tmp_path


@pytest.fixture
def documents(folder: Path) -> Documents:
    return Documents(read_files(DirectorySource(folder)), load_directory(folder))


def loaded(folder: Path, change: FileChange) -> set[str]:
    """What there is after the change."""
    return set(load(ChangedSource(DirectorySource(folder), [change])).resources)


def test_a_session_ends_without_its_neighbour(documents: Documents, folder: Path) -> None:
    change = documents.end_session("Session/p/a")
    assert change.after is not None and b"# b is last" in change.after and b"name: a" not in change.after
    assert "Session/p/a" not in loaded(folder, change) and "Session/p/b" in loaded(folder, change)


def test_a_file_goes_with_its_last_document(folder: Path) -> None:
    (folder / "two.yaml").write_text(session("a", ""))
    documents = Documents(read_files(DirectorySource(folder)), load_directory(folder))
    change = documents.end_session("Session/p/a")
    assert change.after is None and "Session/p/a" not in loaded(folder, change)


def test_a_protected_session_does_not_end(folder: Path) -> None:
    (folder / "two.yaml").write_text(session("a", "", meta='annotations: {bai/protect: "true"}'))
    documents = Documents(read_files(DirectorySource(folder)), load_directory(folder))
    with pytest.raises(CommandError, match="protected"):
        documents.end_session("Session/p/a")


def test_a_priority_is_set_and_comments_stay(documents: Documents) -> None:
    change = documents.set_priority("Session/p/a", 9)
    assert change.after is not None and b"priority: 9  # soon" in change.after


@pytest.mark.parametrize("state", ["cordoned", "drained", "active"])
def test_a_node_takes_nothing_new(documents: Documents, folder: Path, state: str) -> None:
    change = documents.set_node_state("n2", state)  # type: ignore[arg-type]
    made = load(ChangedSource(DirectorySource(folder), [change])).machines
    assert {name: node.spec.state for name, node in made.items()} == {"Node/n1": "active", "Node/n2": state}


def test_another_document_takes_its_place(documents: Documents, folder: Path) -> None:
    text = documents.text("Session/p/b")
    assert text.startswith("# b is last\n")
    change = documents.replace_document("Session/p/b", text.replace("cpu: 1", "cpu: 2"))
    assert change.after is not None and b"priority: 5  # soon" in change.after and b"cpu: 2" in change.after
    assert loaded(folder, change) >= {"Session/p/a", "Session/p/b"}


@pytest.mark.parametrize(
    "text",
    [
        session("c", ""),
        session("b", "") + "---\n" + session("c", ""),
        session("b", "").replace("project: p", "project: q"),
        "",
        "- 1\n",
        "{",
        session("b", "").replace("kind: Session", "kind: Node"),
    ],
)
def test_another_identity_does_not(documents: Documents, text: str) -> None:
    with pytest.raises(BaiError):
        documents.replace_document("Session/p/b", text)


def test_a_new_session_has_a_file_of_its_own(documents: Documents, folder: Path) -> None:
    identity, change = documents.add_session(session("new", "resources: {cpu: 1}"))
    assert (identity, change.name, change.before) == ("Session/p/new", "sessions/p/new.yaml", None)
    assert identity in loaded(folder, change)


@pytest.mark.parametrize(
    ("name", "project"),
    [("../../base", "p"), ("a/b", "p"), ("x", "../.."), ("x", "."), (".hidden", "p"), ("x", "p/q"), ("", "p"),
     ("x\\ny", "p"), ("X", "p"), ("x" * 64, "p")],
)  # fmt: skip
def test_no_name_is_another_path(documents: Documents, name: str, project: str) -> None:
    text = (
        f'apiVersion: bai/v1\nkind: Session\nmetadata: {{name: "{name}", project: "{project}"}}\nspec: {{}}\n'
    )
    with pytest.raises(CommandError, match="usual letters"):
        documents.add_session(text)


def test_what_is_there_is_not_written_over(documents: Documents, folder: Path) -> None:
    with pytest.raises(AlreadyThere):
        documents.add_session(session("a", ""))
    (folder / "sessions" / "p").mkdir(parents=True)
    (folder / "sessions" / "p" / "new.yaml").write_text("# nothing yet\n")
    documents = Documents(read_files(DirectorySource(folder)), load_directory(folder))
    with pytest.raises(AlreadyThere):
        documents.add_session(session("new", ""))


def test_mistakes_have_their_places(documents: Documents, folder: Path) -> None:
    with pytest.raises(InvalidRepository) as wrong:
        documents.add_session("apiVersion: bai/v1\nkind: Session\n  metadata: {\n")
    assert wrong.value.problems[0].place.line == 3
    _, change = documents.add_session(session("new", "resources: {cpus: 1}"))
    with pytest.raises(InvalidRepository) as wrong:
        loaded(folder, change)
    place = wrong.value.problems[0].place
    assert place.file == "sessions/p/new.yaml" and place.line > 1 and place.column > 1


def test_only_ones_own_sessions_may_be_touched() -> None:
    ours, theirs = session("a", ""), session("a", "").replace("project: p", "project: q")
    both = f"{ours}---\n{theirs}"

    def foreign(before: str | None, after: str | None, *projects: str) -> tuple[str, ...]:
        change = FileChange(
            "x.yaml", *(each.encode() if each is not None else None for each in (before, after))
        )
        return foreign_documents([change], projects)

    assert foreign(None, ours, "p") == () == foreign(ours, None, "p", "q")
    assert foreign(both, theirs, "p") == ("Session/q/a",)
    assert foreign(None, ours, "q") == ("Session/p/a",) == foreign(None, ours)
    served = "kind: Service\nmetadata: {name: web, project: p}\n"
    assert foreign(None, served, "p") == () and foreign(None, served, "q") == ("Service/p/web",)
    assert foreign(None, NODE.format(name="n1"), "p") == ("Node/n1",)
    assert foreign(ours, f"{ours}---\nhello: 1\n", "p") == ("x.yaml",)
    assert foreign(None, "kind: Session\nmetadata: {name: p/x}\n", "p") == ("Session/p/x",)
    assert foreign(None, "{", "p") != ()
