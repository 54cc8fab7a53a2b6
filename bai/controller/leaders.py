"""Which loops of this process lead, where several replicas share a store on a server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.controller.loop import Loop


@contextlib.contextmanager
def leader_election(loops: Sequence[Loop], ttl: float) -> Iterator[None]:
    """Each loop acts only while it leads its cluster; at the end the lead is handed over.

    With a store that is a file there is nothing to elect: its loops are on one machine, and take turns.
    """
    from bai.actor import current_actor
    from bai.controller.log_line import log_line
    from reconciler.controller.leader import Leader
    from reconciler.controller.replica import Replica
    from reconciler.controller.standby import StandbyPublisher

    with contextlib.ExitStack() as stack:
        for loop in loops:
            workspace = loop.workspace
            if not workspace.state.on_server:
                continue
            name = workspace.cluster.name

            def tell(line: str, shown: str = name if len(loops) > 1 else "") -> None:
                log_line(shown, line)

            replica = Replica(workspace.store, name, current_actor(), workspace.clock)
            leader = Leader(replica, log=tell, gained=loop.wake, ttl=ttl)
            loop.leads, loop.leader = leader.leads, leader.leader
            loop.add_listener(StandbyPublisher(replica, leader.lease).publish)
            leader.start()
            stack.callback(leader.stop)
        yield
