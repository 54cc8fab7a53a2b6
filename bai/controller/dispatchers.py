"""Beside each loop, who tells people what happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.controller.loop import Loop
    from reconciler.notify.dispatcher import Herald

PATIENCE = 20.0
"""Seconds at the end for what has just happened; what is not sent then is sent by who runs next."""


@contextlib.contextmanager
def heralds(loops: Sequence[Loop]) -> Iterator[Mapping[str, Herald]]:
    """By cluster; they hear of passes from now on, and end before whoever leads hands over."""
    from bai.actor import holder
    from bai.controller.loop_threads import say
    from reconciler.notify.delivery import post
    from reconciler.notify.dispatcher import Herald

    made: dict[str, Herald] = {}
    for loop in loops:
        workspace = loop.workspace
        name = workspace.cluster.name
        herald = Herald(
            workspace.store, name, holder=holder(), clock=workspace.clock, leads=partial(_leads, loop),
            tell=partial(say, name if len(loops) > 1 else ""),
            send=partial(post, secret=workspace.secrets.infrastructure),
        )  # fmt: skip
        loop.also(herald.heard)
        made[name] = herald
        herald.start()
    try:
        yield made
    finally:
        for herald in made.values():
            herald.close(PATIENCE)


def _leads(loop: Loop) -> bool:
    """As it is now: who leads is known only after this was made."""
    return loop.leads()
