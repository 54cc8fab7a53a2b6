"""A terminal is opened and ends: what stands in the audit of it, and that none is without that."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from providers.required_abilities import require_terminals
from reconciler.values.records import Audit
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from bai.web.panel.terminal.live_terminal import TerminalEnd
    from bai.web.panel.terminal.terminals import TerminalOwner, Terminals
    from providers.abilities import TerminalStream
    from reconciler.workspace.workspace import Workspace

SESSION_PATH = "/clusters/{cluster}/sessions/{project}/{name}/terminal"
"""Of the page, and of its WebSocket."""
SHELL = (
    "/bin/sh",
    "-c",
    "TERM=xterm-256color; export TERM; command -v bash >/dev/null && exec bash; exec sh",
)
"""The better one of those that the container has."""


@dataclass(frozen=True, slots=True)
class KernelTerminal:
    """What is opened: of which session's container (`id` is the provider's), its main program or a shell."""

    identity: str
    kernel: str
    id: str
    attach: bool
    size: tuple[int, int]

    @property
    def words(self) -> str:
        return f"{'the main program' if self.attach else 'a shell'} of {self.kernel}"


def open_kernel_terminal(
    terminals: Terminals, owner: TerminalOwner, workspace: Workspace, wanted: KernelTerminal
) -> str:
    """Its id; in a place that was taken, which is given back where it cannot be opened. Asks the node. Raises
    BaiError."""
    store, cluster = workspace.store, workspace.cluster.name

    def write_down(verb: str, cause: str) -> None:
        entry = Audit(verb, wanted.identity, workspace.clock.now(), cause, owner.name)
        store.record_audit(cluster, entry)

    def on_end(end: TerminalEnd) -> None:
        how = end.why or (f"it ended with {end.code}" if end.code is not None else "it ended")
        with contextlib.suppress(StoreError):  # That it was opened stands there.
            write_down("close-terminal", f"{wanted.words}: {how}")

    try:
        stream = _open(workspace, wanted)
        try:
            write_down("open-terminal", wanted.words)
        except BaseException:
            stream.close()
            raise
    except BaseException:
        terminals.give_back(owner.name)
        raise
    return terminals.add(owner, stream, on_end)


def _open(workspace: Workspace, wanted: KernelTerminal) -> TerminalStream:
    able = require_terminals(workspace.provider, workspace.cluster)
    if wanted.attach:
        return able.attach_terminal(wanted.id, wanted.size)
    return able.open_terminal(wanted.id, SHELL, wanted.size)
