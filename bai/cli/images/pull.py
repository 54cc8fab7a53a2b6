"""Bringing an image to nodes at once, outside of any plan."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from bai.cli.images.list import find_image
from bai.cli.output import is_terminal, print_line
from bai.queries.names.resource_names import resolve_name
from bai.render.humanize import clean
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from providers.images import PullProgress
    from reconciler.observe.images import KnownImage
    from reconciler.values.state import Desired
    from reconciler.workspace.workspace import Workspace

_AT_ONCE = 16


def pull_image(workspace: Workspace, name: str, nodes: tuple[str, ...]) -> bool:
    """True when all nodes have it. Raises CommandError, NoSuchResource, SecretMissing."""
    from providers.images import PullRequest, PullsImages
    from reconciler.observe.images import access_to
    from schemas.problems.errors.base import BaiError
    from schemas.problems.errors.command import CommandError

    provider = workspace.provider
    if not isinstance(provider, PullsImages):
        raise CommandError(why=f"provider {workspace.cluster.spec.provider} does not pull images")
    desired = workspace.desired()
    known = find_image(desired, name)
    where = tuple(_target_nodes(desired, known, nodes))
    if not where:
        raise CommandError(why="it is not said where to", hint="name nodes, or give its document prePull")
    auth = access_to(
        workspace.repository, known.reference, workspace.secrets.for_infrastructure
    ).engine_auth()
    tell = _ProgressPrinter()
    failed = 0
    with ThreadPoolExecutor(min(_AT_ONCE, len(where))) as pool:
        jobs: dict[Future[bool], str] = {
            pool.submit(provider.pull, PullRequest(node, str(known.reference), "always", auth), tell): node
            for node in where
        }
        for job in as_completed(jobs):
            try:
                job.result()
            except BaiError as error:
                failed += 1
                print(f"{clean(jobs[job])}: {clean(str(error))}", file=sys.stderr)
    return not failed


def _target_nodes(desired: Desired, known: KnownImage, names: tuple[str, ...]) -> Iterator[str]:
    from reconciler.values.documents.pre_pull import pre_pull_nodes

    identities = [node.identity for node in desired.nodes]
    for name in names:
        yield ref_of(resolve_name(name, identities, "Node")).name
    if not names and known.image is not None:
        yield from (node.name for node in pre_pull_nodes(desired, known.image))


class _ProgressPrinter:
    """Says how far it has come: all of it on a terminal, else only beginnings and ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = is_terminal(sys.stdout)
        self._begun: set[str] = set()

    def __call__(self, news: PullProgress) -> None:
        from bai.render.plan.images import pull_progress_line

        with self._lock:
            if self._all or news.over or news.node not in self._begun:
                self._begun.add(news.node)
                print_line(pull_progress_line(news))
