"""Where a reading command asks: the repository here, or the server of a context."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bai.settings import LOCAL_CONTEXT, Settings

if TYPE_CHECKING:
    from bai.queries.models import Query
    from bai.remote.cluster import RemoteCluster
    from bai.render.printout import Printout


ENVIRONMENT = "BAI_CONTEXT"
"""A context's name, for those commands that can ask a server."""


def read(settings: Settings, query: Query, *, offline: bool = False) -> Printout:
    """The answer of the server in use, else what is seen from here. Raises BaiError."""
    remote = remote_cluster(settings)
    if remote is not None:
        refuse_for_server("--offline", given=offline)
        return remote.read(query)
    from bai.queries.answers import answer
    from bai.queries.view import WorkspaceView

    with settings.reading_workspace() as workspace:
        return answer(WorkspaceView(workspace, offline=offline), query)


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
