"""What a cluster's documents say is worked out anew only where they have changed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.sources import desired as module
from reconciler.sources.desired import DesiredCache, make_desired
from reconciler.values.state import Desired
from schemas.loading.document_cache import DocumentCache
from schemas.loading.loader import load_directory
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import InvalidRepository
from schemas.values.envelope import Resource
from tests.schemas.edits import (
    CAPTURE,
    CLUSTER,
    EDITS,
    GROUP,
    OTHER_CAPTURE,
    POOL,
    SESSION,
    START,
    Edit,
    make,
)  # fmt: skip


def desired(folder: Path, documents: DocumentCache, cache: DesiredCache | None) -> Desired | None:
    """None where there is none."""
    try:
        repository = load_directory(folder, cache=documents)
        return make_desired(repository, "lab", repo="r", commit="", cache=cache)
    except (InvalidRepository, PlanError):
        return None


@settings(max_examples=40)
@given(st.lists(EDITS, max_size=8))
def test_it_is_what_is_worked_out_anew_after_any_change(edits: list[Edit]) -> None:
    with tempfile.TemporaryDirectory() as name:
        documents, cache = DocumentCache(), DesiredCache()
        for edit in [*START, *edits]:
            make(Path(name), edit)
            anew = desired(Path(name), DocumentCache(), None)
            assert desired(Path(name), documents.fork(), cache.fork()) == anew, "as another thread has it"
            found = desired(Path(name), documents, cache)
            assert found == anew
        assert edits or found is not None


def test_only_what_has_changed_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = module.canonical_document

    def counted(resource: Resource) -> object:
        written.append(resource.identity)
        return write(resource)

    monkeypatch.setattr(module, "canonical_document", counted)
    for edit in START:
        make(tmp_path, edit)
    documents, cache = DocumentCache(), DesiredCache()
    first = desired(tmp_path, documents, cache)
    assert first is not None and sorted(written) == sorted(first.digests)
    written.clear()
    again = desired(tmp_path, documents, cache)
    assert again is not None and again.tree == first.tree and written == []
    make(tmp_path, ("write", "session-2.yaml", SESSION.format(name="s2", cpu=3, more="")))
    changed = desired(tmp_path, documents, cache)
    assert changed is not None and changed.tree != first.tree
    assert {each for each in written if not each.startswith("Session/vision/tries")} == {"Session/vision/s2"}
    written.clear()
    make(tmp_path, ("write", "cluster.yaml", CLUSTER.format(name="lab", level=2, image="tool", group="g2")))
    moved = desired(tmp_path, documents, cache)
    assert moved is not None and {*written} == {"Cluster/lab", *moved.sessions()}
    assert all(session.spec.resource_group == "g2" for session in moved.sessions().values())


def test_the_tree_tells_documents_of_other_clusters_and_machines_apart(tmp_path: Path) -> None:
    """Digests of both count, so that nobody takes a plan for one of other documents."""
    own = CLUSTER.format(name="lab", level=1, image="tool", group="g1")
    pool = POOL.format(last=3, capture="captured.yaml").replace("{namePattern", "{cluster: lab, namePattern")
    make(
        tmp_path,
        ("write", "all.yaml", f"{own}---\n{GROUP.format(name='g1')}spec: {{cluster: lab}}\n---\n{pool}"),
    )
    trees = set()
    for provider, capture in (("docker", CAPTURE), ("process", CAPTURE), ("process", OTHER_CAPTURE)):
        other = (
            f"apiVersion: bai/v1\nkind: Cluster\nmetadata: {{name: other}}\nspec: {{provider: {provider}}}\n"
        )
        make(tmp_path, ("write", "other.yaml", other))
        make(tmp_path, ("write", "captured.yaml", capture))
        found = desired(tmp_path, DocumentCache(), None)
        assert found is not None
        trees.add(found.tree)
    assert len(trees) == 3
