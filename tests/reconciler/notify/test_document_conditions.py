"""What lasts of a remote, told of a real one: refused, out of reach, waiting for approval."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.cycle import ReconcileCycle, error_signs
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.gitops.document_source import FollowedDocuments, first_commit
from reconciler.gitops.remote import Remote
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.sources.source import Source
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.store import LeaseHeld, StoreError
from tests.reconciler.gitops.repositories import Pair
from tests.reconciler.lab import BASE, new_store


class Site:
    """A forge, and a loop that follows it; `signs` of the last pass."""

    def __init__(self, folder: Path) -> None:
        self.pair, self.folder = Pair(folder, {"base.yaml": BASE}), folder
        self.passes: list[ReconcileCycle] = []
        self.workspaces: list[Workspace] = []

    def push(self, files: dict[str, str | None]) -> str:
        commit = self.pair.commit(files)
        self.pair.push()
        return commit

    def loop(self, *, approval: bool = False) -> Loop:
        state, world = self.folder / "store.db", World(VirtualClock(1_800_000_000.0))
        store = new_store(state)
        follow = RevisionTracker(
            TrackedRef(Remote(str(self.pair.bare), self.folder / "copy"), "main"), store, "here"
        )
        source: Source = follow.source(first_commit(follow))
        workspace = Workspace.at(source, cluster="here", state=store, clock=world.clock)
        workspace.provider = FakeProvider(world)
        self.workspaces.append(workspace)
        documents = FollowedDocuments(follow, approval=approval)
        loop = Loop(workspace, LoopOptions("loop", 30), log=lambda _: None, documents=documents)
        loop.add_listener(self.passes.append)
        return loop

    def signs(self, loop: Loop) -> dict[str, str]:
        loop.once()
        return dict(self.passes[-1].signs)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    for workspace in made.workspaces:
        workspace.close()


def test_a_bad_commit(site: Site) -> None:
    loop = site.loop()
    assert site.signs(loop) == {}
    bad = site.push({"bad.yaml": "kind: nonsense\n"})
    signs = site.signs(loop)
    assert list(signs) == ["documents-refused"]
    assert f"commit {bad[:12]} cannot be used" in signs["documents-refused"]
    site.push({"bad.yaml": None})
    assert site.signs(loop) == {}


def test_a_remote_that_is_gone(site: Site) -> None:
    loop = site.loop()
    assert site.signs(loop) == {}
    shutil.move(site.pair.bare, site.folder / "elsewhere.git")
    signs = site.signs(loop)
    assert list(signs) == ["documents-unreachable"] and "stays in force" in signs["documents-unreachable"]
    shutil.move(site.folder / "elsewhere.git", site.pair.bare)
    assert site.signs(loop) == {}


def test_a_commit_that_waits_for_approval(site: Site) -> None:
    signs = site.signs(site.loop(approval=True))
    assert list(signs) == ["approval-needed"] and "bai approve" in signs["approval-needed"]


def test_somebody_else_who_applies_is_no_news() -> None:
    held = LeaseHeld(holder="jo", cluster="here", until="soon")
    assert error_signs(held, "x") == {}
    assert error_signs(StoreError(store="s", why="full"), "x") == {"loop-failed": "x"}
