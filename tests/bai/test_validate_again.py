"""`bai validate` of what was right says the same again, and judges documents only where they have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bai.cli.repository.validation import Checked, check
from bai.settings import Settings
from schemas.loading import loader
from tests.bai.conftest import Repo

SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {name: web, project: demo}
spec: {resources: {cpu: 500m, memory: 64MiB}, command: [sleep, "60"]}
"""
REGISTRY = """\
apiVersion: bai/v1
kind: Registry
metadata: {name: near}
spec: {address: "registry.example:5000", plainHttp: true}
"""


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """One entry for each time that documents are judged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found: list[str] = []
    run = loader._Loading.run

    def counted(self: loader._Loading) -> object:
        found.append(self.source.where)
        return run(self)

    monkeypatch.setattr(loader._Loading, "run", counted)
    return found


def checked(repo: Repo, **options: object) -> Checked:
    return check(Settings(directory=repo.root, **options), [])  # type: ignore[arg-type]


def test_what_was_right_is_not_judged_again(repo: Repo, loads: list[str]) -> None:
    first = checked(repo)
    assert sum(first.kinds.values()) == 5
    assert checked(repo) == first and len(loads) == 1


def test_warnings_are_given_each_time(repo: Repo, loads: list[str]) -> None:
    repo.write("near.yaml", REGISTRY)
    first = checked(repo)
    assert [one.place.file for one in first.warnings] == ["near.yaml"]
    assert checked(repo) == first and len(loads) == 1


def test_a_change_is_judged(repo: Repo, loads: list[str]) -> None:
    checked(repo)
    repo.write("web.yaml", SESSION)
    assert checked(repo).kinds["Session"] == 1
    repo.write("web.yaml", SESSION.replace("command", "comand"))
    for _ in range(2):
        assert [one.place.file for one in checked(repo).problems] == ["web.yaml"]
    assert len(loads) == 4


def test_files_are_judged_with_their_repository(repo: Repo, loads: list[str]) -> None:
    repo.write("web.yaml", SESSION)
    checked(repo)
    found = check(Settings(directory=repo.root), [repo.root / "web.yaml"])
    assert found.kinds == {"Session": 1} and len(loads) == 2


def test_what_is_no_repository_is_told_each_time(tmp_path: Path, loads: list[str]) -> None:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "values.yaml").write_text("image: x\n")
    for _ in range(2):
        assert check(Settings(directory=tmp_path / "chart"), []).problems
    assert len(loads) == 2
