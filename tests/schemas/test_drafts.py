"""A file whose author does not know all documents: what they do not know is not there, and yet in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.kinds.secret_store import SecretStore
from schemas.kinds.session import Session
from schemas.kinds.tenancy import Project
from schemas.loading.document_cache import DocumentCache
from schemas.loading.draft import Draft
from schemas.loading.loader import load
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.problem import Problem
from schemas.repository.declared_stores import OwnerStores
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource

SHARED = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: default}
spec: {allowedProjects: [p, q]}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
spec: {uid: 2000}
---
apiVersion: bai/v1
kind: Project
metadata: {name: q}
spec: {uid: 3000}
"""
STORES = OwnerStores(
    {
        name: SecretStore.model_validate(
            {
                "apiVersion": "bai/v1",
                "kind": "SecretStore",
                "metadata": {"name": name},
                "spec": {"environment": {}, "entries": ["KEY"], "projects": [project]},
            }
        )
        for name, project in (("ours", "p"), ("theirs", "q"))
    }
)


def session(name: str, project: str, more: str = "") -> str:
    spec = f"image: registry.example/a:1, resourceGroup: default, {more}".rstrip(", ")
    head = f"apiVersion: bai/v1\nkind: Session\nmetadata: {{name: {name}, project: {project}}}\n"
    return head + f"spec: {{{spec}}}\n"


def knows(resource: Resource) -> bool:
    return resource.project in (None, "p") and not (isinstance(resource, Project) and resource.name == "q")


def judged(folder: Path, more: str, cache: DocumentCache | None = None) -> Repository | tuple[Problem, ...]:
    """What becomes of a session of p beside one of q."""
    (folder / "shared.yaml").write_text(SHARED)
    (folder / "theirs.yaml").write_text(session("one", "q"))
    (folder / "new.yaml").write_text(session("new", "p", more))
    cache = cache or DocumentCache()
    try:
        return load(cache.directory(folder, ()), STORES, cache, Draft("new.yaml", knows))
    except InvalidRepository as error:
        return error.problems


def only(found: Repository | tuple[Problem, ...]) -> Problem:
    assert not isinstance(found, Repository)
    (problem,) = found
    assert problem.place.file == "new.yaml"
    return problem


def test_what_is_not_known_is_not_there(tmp_path: Path) -> None:
    hidden, nobodys = (only(judged(tmp_path, f"dependsOn: [Session/q/{name}]")) for name in ("one", "two"))
    assert hidden.message == "there is no Session 'Session/q/one'" and "Session/q" not in hidden.hint
    assert (nobodys.message, nobodys.hint) == (hidden.message.replace("one", "two"), hidden.hint)


def test_nor_is_a_store_that_is_not_granted(tmp_path: Path) -> None:
    assert isinstance(judged(tmp_path, "secrets: [{env: A, from: ours/KEY}]"), Repository)
    hidden, nobodys = (
        only(judged(tmp_path, f"secrets: [{{env: A, from: {name}/KEY}}]")) for name in ("theirs", "nobody")
    )
    assert hidden.message == "there is no SecretStore 'theirs'" and hidden.code == nobodys.code
    assert nobodys.message == hidden.message.replace("theirs", "nobody")


def test_what_must_not_be_beside_it_is_in_the_way_without_its_name(tmp_path: Path) -> None:
    found = only(judged(tmp_path, "container: {user: '3000'}"))
    assert found.message == "this does not go together with documents that are not yours to see"
    assert found.path == "spec.container.user" and "q" not in found.hint.split()


def test_a_circle_is_told_without_who_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(session("zz", "p", "dependsOn: [Session/p/new]"))
    found = only(judged(tmp_path, "dependsOn: [Session/p/zz]"))
    assert found.message == "sessions wait for each other, this one among them"


def test_other_documents_are_judged_as_ever(tmp_path: Path) -> None:
    """What they name may well be unknown to the author of the draft."""
    found = judged(tmp_path, "dependsOn: []")
    assert isinstance(found, Repository)
    assert isinstance(found.resources["Session/q/one"], Session)


def test_what_was_judged_for_somebody_is_judged_anew_for_somebody_else(tmp_path: Path) -> None:
    cache = DocumentCache()
    assert not isinstance(judged(tmp_path, "dependsOn: [Session/q/one]", cache), Repository)
    assert load(cache.directory(tmp_path, ()), STORES, cache).resources
    with pytest.raises(InvalidRepository):
        load(cache.directory(tmp_path, ()), STORES, cache, Draft("new.yaml", knows))
