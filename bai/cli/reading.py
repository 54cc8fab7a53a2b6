"""Where a reading command asks: the repository here, or the server of a context."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.context import with_notice
from bai.settings import LOCAL_CONTEXT, Settings

if TYPE_CHECKING:
    from bai.queries.models import Query
    from bai.queries.view import WorkspaceView
    from bai.remote.cluster import RemoteCluster
    from bai.render.printout import Printout
    from reconciler.workspace.store_access import StoreAccess
    from reconciler.workspace.workspace import Workspace


ENVIRONMENT = "BAI_CONTEXT"
"""A context's name, for those commands that can ask a server."""


def read(settings: Settings, query: Query, *, offline: bool = False) -> Printout:
    """The answer of the server in use, else what is seen from here. Raises BaiError."""
    remote = remote_cluster(settings)
    if remote is not None:
        refuse_for_server("--offline", given=offline)
        return remote.read(query)
    from bai.queries.answers import answer

    with contextlib.ExitStack() as opened:
        return answer(_view(with_notice(settings), query, opened, offline=offline), query)


def _view(settings: Settings, query: Query, opened: contextlib.ExitStack, *, offline: bool) -> WorkspaceView:
    """With as many documents loaded as the question needs; what is opened is closed with `opened`."""
    from bai.queries.answers import OF_KERNELS, OF_STORE
    from bai.queries.view import WorkspaceView

    access: StoreAccess
    if query.command in OF_STORE:
        access = opened.enter_context(settings.store_access())
    elif query.command in OF_KERNELS:
        access = opened.enter_context(settings.kernel_access())
    else:
        return WorkspaceView.of(opened.enter_context(settings.reading_workspace()), offline=offline)

    def open_workspace() -> Workspace:
        from reconciler.workspace.workspace import Workspace

        if isinstance(access, Workspace):
            return access
        return opened.enter_context(settings.reading_workspace(access.source))

    return WorkspaceView(access, open_workspace, offline=offline)


def remote_cluster(settings: Settings) -> RemoteCluster | None:
    """The server's cluster that is to be asked; None for the repository here.

    `--context` (or `BAI_CONTEXT`) goes before everything; options that name a repository or store go before
    the current context, and so does a folder with a store of its own, in or above this one.
    """
    name = settings.context or os.environ.get(ENVIRONMENT) or None
    if name == LOCAL_CONTEXT or (name is None and (settings.names_repository or _has_own_store())):
        return None
    from bai.remote.contexts import contexts_path, load_contexts

    if name is None and not contexts_path().exists():
        return None
    contexts = load_contexts()
    name = name or contexts.current
    if name is None:
        return None
    from bai.remote.cluster import open_cluster

    return open_cluster(name, contexts.named(name), settings.cluster)


def refuse_for_server(option: str, *, given: bool) -> None:
    """Raises CommandError for what only a machine with the repository can do."""
    from schemas.problems.errors.command import CommandError

    if given:
        hint = f"leave it out, or give --context {LOCAL_CONTEXT} where the repository is"
        raise CommandError(why=f"{option} is not for a server", hint=hint)


def _has_own_store() -> bool:
    here = Path(os.path.realpath("."))
    return any((folder / ".bai" / "store.db").exists() for folder in (here, *here.parents))
