"""Beside each loop, who tells people what happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.controller.loop import Loop
    from reconciler.notify.dispatcher import Dispatcher

FLUSH_TIMEOUT = 20.0
"""Seconds at the end for what has just happened; what is not sent then is sent by who runs next."""


@contextlib.contextmanager
def running_dispatchers(loops: Sequence[Loop]) -> Iterator[Mapping[str, Dispatcher]]:
    """By cluster; they hear of passes from now on, and end before whoever leads hands over."""
    from bai.actor import current_actor
    from bai.controller.log_line import log_line
    from reconciler.controller.replica import Replica
    from reconciler.notify.delivery import deliver
    from reconciler.notify.dispatcher import Dispatcher

    dispatchers: dict[str, Dispatcher] = {}
    for loop in loops:
        workspace = loop.workspace
        name = workspace.cluster.name
        dispatcher = Dispatcher(
            Replica(workspace.store, name, current_actor(), workspace.clock),
            leads=partial(_is_leader, loop),
            tell=partial(log_line, name if len(loops) > 1 else ""),
            send=partial(deliver, secret=workspace.secrets.for_infrastructure),
        )  # fmt: skip
        loop.add_listener(dispatcher.enqueue_cycle)
        dispatchers[name] = dispatcher
        dispatcher.start()
    try:
        yield dispatchers
    finally:
        for dispatcher in dispatchers.values():
            dispatcher.close(FLUSH_TIMEOUT)


def _is_leader(loop: Loop) -> bool:
    """As it is now: who leads is known only after this was made."""
    return loop.leads()
