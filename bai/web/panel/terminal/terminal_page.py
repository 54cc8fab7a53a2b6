"""What the page of a terminal shows before one is open: which containers there are, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.web.panel.views.session_page import require_session
from schemas.problems.errors.command import NoSuchResource

if TYPE_CHECKING:
    from bai.web.pass_view import PassView

RUNNING = frozenset({"running", "starting"})


@dataclass(frozen=True, slots=True)
class TerminalPage:
    """`kernels`: containers that run; `kernel`: the chosen one. `obstacle`: why none can be opened, empty
    where one can."""

    project: str
    name: str
    phase: str
    kernels: tuple[str, ...]
    kernel: str
    obstacle: str


def terminal_page(view: PassView, project: str, name: str, kernel: str, obstacle: str) -> TerminalPage:
    """`obstacle`: of the server. Raises NoSuchResource, and what looking raises."""
    identity = require_session(view, project, name)
    item = view.actual.existing.get(identity)
    running = tuple(each.labels.kernel for each in item.kernels if each.state in RUNNING) if item else ()
    if kernel and kernel not in running:
        known = {each.labels.kernel for each in item.kernels} if item else frozenset()
        if kernel not in known:
            raise NoSuchResource(what="container", name=kernel, hint="")
        obstacle = obstacle or f"{kernel} does not run."
    return TerminalPage(
        project=project,
        name=name,
        phase=item.phase if item else "",
        kernels=running,
        kernel=kernel or next(iter(running), ""),
        obstacle=obstacle or ("" if running else "It has no container that runs."),
    )
