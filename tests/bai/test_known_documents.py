"""What the YAML of documents said is remembered by commands that only look: after a change only what has
changed is parsed, what is said is to the byte what is said without, and no plan that can be carried out rests
on it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.sources import known_documents, sealed_files
from reconciler.workspace import workspace as workspace_module
from schemas.loading import parsed_file
from tests.bai.conftest import CLUSTER, Repo, Said

PLAN = ("plan", "--offline")
MISTAKE = "apiVersion: bai/v1\nkind: Session\nmetadata: {name: wrong, project: demo}\nspec: {colour: red}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    root = tmp_path / "repository"
    root.mkdir()
    found = Repo(root, {"XDG_CACHE_HOME": str(tmp_path / "cache"), "BAI_STATE": str(tmp_path / "store.db")})
    found.write("cluster.yaml", CLUSTER)
    for name in ("one", "two", "three"):
        found.session(name, "sleep", "1")
    return found


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


def anew(repo: Repo, *words: str) -> Said:
    return Repo(repo.root, {**repo.env, "BAI_CACHE": "off"})(*(words or PLAN))


def values_file(repo: Repo) -> Path:
    (found,) = (Path(repo.env["XDG_CACHE_HOME"]) / "bai" / "documents").glob("*.values")
    return found


def test_only_what_has_changed_is_parsed(repo: Repo, parsed: list[str]) -> None:
    first = repo(*PLAN)
    assert first.code == 0 and len(parsed) == 4
    assert values_file(repo).stat().st_mode & 0o777 == 0o600
    repo.session("two", "sleep", "2")
    parsed.clear()
    said = repo(*PLAN)
    assert parsed == ["two.yaml"] and said == anew(repo) != first
    parsed.clear()
    assert repo(*PLAN) == said and parsed == [], "that is known now, too"


CHANGES: dict[str, Callable[[Repo], object]] = {
    "a document": lambda repo: repo.session("one", "sleep", "10"),
    "one more": lambda repo: repo.session("four", "sleep", "1"),
    "one less": lambda repo: (repo.root / "two.yaml").unlink(),
    "a name": lambda repo: (repo.root / "two.yaml").rename(repo.root / "five.yaml"),
    "the same twice": lambda repo: repo.write("copy.yaml", (repo.root / "two.yaml").read_text()),
    "white space": lambda repo: repo.write("two.yaml", "\n\n" + (repo.root / "two.yaml").read_text()),
    "a mistake": lambda repo: repo.write("wrong.yaml", MISTAKE),
    "no YAML": lambda repo: repo.write("wrong.yaml", "apiVersion: bai/v1\nkind: [\n"),
    "a key twice": lambda repo: repo.write("wrong.yaml", MISTAKE + "spec: {}\n"),
    "another cluster": lambda repo: repo.write("cluster.yaml", CLUSTER.replace("fifo", "drf")),
    "a kind that is gone": lambda repo: repo.write("cluster.yaml", CLUSTER.replace("name: demo", "name: d")),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_after_a_change_it_says_what_is_said_without(repo: Repo, change: Callable[[Repo], object]) -> None:
    repo(*PLAN)
    change(repo)
    said = repo(*PLAN)
    assert said == anew(repo)
    assert repo(*PLAN) == said, "also what is remembered now"


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "changed": lambda file: file.write_bytes(file.read_bytes().replace(b"sleep", b"sheep")),
    "another format": lambda file: file.write_bytes(file.read_bytes().replace(b"values/1", b"values/9")),
    "others may write": lambda file: file.chmod(0o660),
    "the folder is open": lambda file: file.parent.chmod(0o777),
    "a link": lambda file: (file.rename(file.with_suffix(".x")), file.symlink_to(file.with_suffix(".x"))),
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
    "of other code": lambda file: rewrite(file, lambda found: found | {"code": "0" * 64}),
    "no files": lambda file: rewrite(file, lambda found: found | {"files": []}),
    "nothing": lambda file: rewrite(file, lambda found: {}),
    "a list": lambda file: rewrite(file, lambda found: []),
    "no documents": lambda file: rewrite_each(file, lambda documents: 1),
    "strange documents": lambda file: rewrite_each(file, lambda documents: [1]),
    "parts of documents": lambda file: rewrite_each(file, lambda documents: [documents[0][:3]]),
}


def rewrite(file: Path, change: Callable[[dict[str, object]], object]) -> None:
    """As somebody would who knows how files of the cache are sealed."""
    text = json.dumps(change(json.loads(file.read_text().partition("\n")[2])))
    file.write_text(f"{known_documents.FORMAT} {sealed_files.digest_of(text.encode())}\n{text}")


def rewrite_each(file: Path, change: Callable[[list[list[object]]], object]) -> None:
    def changed(found: dict[str, object]) -> object:
        files: dict[str, list[list[object]]] = found["files"]  # type: ignore[assignment]
        return found | {"files": {digest: change(documents) for digest, documents in files.items()}}

    rewrite(file, changed)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_what_cannot_be_used_is_as_if_it_were_not_there(
    repo: Repo, parsed: list[str], damage: Callable[[Path], object]
) -> None:
    first = repo(*PLAN)
    damage(values_file(repo))
    parsed.clear()
    assert repo(*PLAN) == first and len(parsed) == 4


def test_of_other_packages_nothing_is_taken(
    repo: Repo, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo(*PLAN)
    parsed.clear()
    # As in another process, which has the other packages.
    monkeypatch.setattr(known_documents, "code_fingerprint", sealed_files.code_fingerprint.__wrapped__)
    monkeypatch.setattr(sealed_files, "_installed_distributions", lambda: [["pyyaml-99.dist-info"]])
    assert repo(*PLAN) == anew(repo) and len(parsed) == 8


def test_a_cache_that_nobody_may_write_changes_nothing(repo: Repo) -> None:
    Path(repo.env["XDG_CACHE_HOME"]).write_text("no folder")
    assert repo(*PLAN) == anew(repo)


def forge(repo: Repo) -> None:
    """Whoever is the user could write what no document says."""

    def other(documents: list[list[object]]) -> list[list[object]]:
        text = json.dumps(documents).replace('["sleep", "1"]', '["sleep", "forged"]')
        forged: list[list[object]] = json.loads(text)
        return forged

    rewrite_each(values_file(repo), other)


@pytest.mark.parametrize("words", [("--format", "json"), ("--out", "saved")])
def test_what_can_be_carried_out_is_made_of_the_documents(
    repo: Repo, tmp_path: Path, words: tuple[str, ...]
) -> None:
    repo(*PLAN)
    forge(repo)
    assert "forged" in values_file(repo).read_text()
    saved = tmp_path / "saved"
    words = tuple(str(saved) if word == "saved" else word for word in words)
    said = repo.ok(*PLAN, *words)
    text = saved.read_text() if saved.exists() else said.out
    assert "forged" not in text and '"sleep"' in text
    assert "forged" not in repo.ok("plan").out, "nor does another plan"


def test_a_plan_that_is_printed_cannot_be_carried_out(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plan = workspace_module.Workspace.plan

    def kept(self: workspace_module.Workspace, *args: object, **options: object) -> object:
        made.append(plan(self, *args, **options))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(workspace_module.Workspace, "plan", kept)
    repo.ok(*PLAN)
    repo.ok("plan")
    repo.ok(*PLAN, "--format", "json")
    assert [bool(each.digest and each.basis) for each in made] == [False, False, True]
