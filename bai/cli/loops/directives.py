"""Orders to the loop: who gives them, for which cluster, about which commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bai.actor import current_actor
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.gitops.directives import Directive, DirectiveKind
    from reconciler.store.store import Store


@dataclass(frozen=True, slots=True)
class LoopDirectives:
    """Where orders to one cluster's loop are left."""

    store: Store
    cluster: str
    git: Path | None
    """The repository that commits are looked up in."""

    def new_directive(self, why: str, revision: str = "") -> Directive:
        """An order of whoever runs this command. Raises CannotRead when there is no such commit."""
        from reconciler.gitops.directives import Directive
        from reconciler.values.clock import SystemClock
        from schemas.files.git_objects import resolve_commit
        from schemas.problems.errors.repository import CannotRead

        if revision and self.git is None:
            raise CannotRead(what=f"revision {revision}", why="this is no git repository")
        commit = resolve_commit(self.git, revision) if revision and self.git else ""
        return Directive(current_actor(), SystemClock().now(), why, commit)

    def give(self, order: DirectiveKind, directive: Directive) -> None:
        from reconciler.gitops.directives import issue_directive

        issue_directive(self.store, self.cluster, order, directive)

    def take_back(self, order: DirectiveKind, directive: Directive) -> bool:
        """False when there was none."""
        from reconciler.gitops.directives import withdraw_directive

        return withdraw_directive(self.store, self.cluster, order, directive)


@contextlib.contextmanager
def open_directives(settings: Settings) -> Iterator[LoopDirectives]:
    """Also where the documents cannot be used just now: that is when a loop is to be stopped. Raises
    BaiError."""
    from reconciler.store.database.address import StoreAddress
    from reconciler.store.store import Store
    from schemas.problems.errors.repository import InvalidRepository

    try:
        with settings.reading_workspace() as workspace:
            yield LoopDirectives(workspace.store, workspace.cluster.name, workspace.source.git)
            return
    except InvalidRepository:
        source = settings.source()
        address = StoreAddress.choose(source.directory, settings.state)
        if address.path is not None and not address.path.exists():
            raise
        with Store.open(address) as store:
            known = [settings.cluster] if settings.cluster else list(store.clusters())
            if len(known) != 1:
                raise
            yield LoopDirectives(store, known[0], source.git)
