"""What a loop has made of its first commit: its store, its copy of the remote and what runs. It is made once
in each process for all labs that begin with the same files, and copied."""

from __future__ import annotations

import atexit
import contextlib
import copy
import functools
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.gitops.document_source import FollowedDocuments, first_commit
from reconciler.gitops.remote import Remote, redact_url
from reconciler.gitops.revision_tracker import RevisionTracker, TrackedRef
from reconciler.workspace.workspace import Workspace
from tests.reconciler.gitops.repositories import Pair, git
from tests.reconciler.lab import new_store

STORE, COPY = "store.db", "copy.git"
Files = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class _Begun:
    state: Path
    url: str
    world: World


def begin(files: Files, state: Path, url: str) -> World:
    """The world in which the first commit of these files runs. `state` becomes the folder of the store and
    the copy of a loop to come, which has followed `main` of the remote at this URL so far."""
    begun = _begun(files)
    shutil.copytree(begun.state, state)
    with contextlib.closing(sqlite3.connect(state / STORE)) as store, store:
        renamed = store.execute(
            "UPDATE meta SET key = replace(key, ?, ?) WHERE key LIKE 'good-commit/%'",
            (f"/{redact_url(begun.url)}/", f"/{redact_url(url)}/"),
        )
        assert renamed.rowcount == 1
    return _copied(begun.world)


def _copied(world: World) -> World:
    made = World(VirtualClock(world.clock.now()))
    own = {name: value for name, value in vars(world).items() if name not in ("clock", "lock")}
    vars(made).update(copy.deepcopy(own))
    return made


@functools.cache
def _begun(files: Files) -> _Begun:
    folder = Path(tempfile.mkdtemp(prefix="bai-begun-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pair, state = Pair(folder, dict(files)), folder / "state"
    world = World(VirtualClock(1_800_000_000.0))
    store = new_store(state / STORE)
    follow = RevisionTracker(TrackedRef(Remote(str(pair.bare), state / COPY), "main"), store, "here")
    source = follow.source(first_commit(follow))
    workspace = Workspace.at(source, cluster="here", state=store, clock=world.clock)
    workspace.provider = FakeProvider(world)
    lines: list[str] = []
    documents = FollowedDocuments(follow, approval=False)
    loop = Loop(workspace, LoopOptions("loop", 30), log=lines.append, documents=documents)
    for _ in range(2):
        world.clock.sleep(30)
        assert loop.once(), lines
    workspace.close()
    git(state / COPY, "repack", "-a", "-d", "--quiet")  # A file to copy, in place of many.
    return _Begun(state, str(pair.bare), world)
