"""What a session's containers write: which there are, and which one is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean
from bai.web.panel.views.session_page import require_session
from schemas.problems.errors.command import NoSuchResource

if TYPE_CHECKING:
    from bai.web.pass_view import PassView

TAIL = 1000
"""Lines from before now that are shown at first."""


@dataclass(frozen=True, slots=True)
class LogsPage:
    """`kernel`: the container that is shown, empty where there is none yet; `node`: where it is; `state`:
    whether more may come."""

    project: str
    name: str
    phase: str
    kernels: tuple[str, ...]
    kernel: str
    node: str
    state: str
    tail: int = TAIL


def logs_page(view: PassView, project: str, name: str, kernel: str = "") -> LogsPage:
    """Without a `kernel`, of the first. Raises NoSuchResource, and what looking raises."""
    identity = require_session(view, project, name)
    item = view.actual.existing.get(identity)
    placement = item.recorded.placement if item else None
    nodes = {each.kernel: each.node for each in placement.kernels} if placement else {}
    seen = {each.labels.kernel: each.state for each in item.kernels} if item else {}
    known = tuple({**nodes, **seen})
    if kernel and kernel not in known:
        raise NoSuchResource(what="container", name=clean(kernel), hint="")
    shown = kernel or next(iter(known), "")
    return LogsPage(
        project=project,
        name=name,
        phase=item.phase if item else "",
        kernels=known,
        kernel=shown,
        node=nodes.get(shown, ""),
        state=seen.get(shown, ""),
    )
