"""What the store tells of a cluster's loop: leases, orders, how its last pass ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bai.render.resources.loop_status import LoopStatus, Presence
    from reconciler.values.records import Lease
    from reconciler.workspace.workspace import Workspace


def read_loop_status(workspace: Workspace) -> LoopStatus:
    """What the store tells of the cluster's loop. Raises StoreError."""
    from bai.render.resources.loop_status import LoopStatus
    from reconciler.controller.leader import leader_lease_name
    from reconciler.controller.pass_note import read_pass_note
    from reconciler.controller.standby import read_leader_note
    from reconciler.gitops.directives import read_directives

    store, cluster = workspace.existing_store, workspace.cluster.name
    if store is None:
        return LoopStatus("never")
    note, directives = read_pass_note(store, cluster), read_directives(store, cluster)
    if workspace.state.on_server:
        lease, told = store.lease(leader_lease_name(cluster)), read_leader_note(store, cluster)
        if lease is not None and _is_live(lease, workspace.clock.now()):
            ended = told.ended if told is not None else None
            return LoopStatus("running", lease.holder, lease.acquired, directives, note, ended)
    if note is None:
        return LoopStatus("never", directives=directives)
    if workspace.state.on_server:
        return LoopStatus("stopped", note.holder, None, directives, note)
    return LoopStatus(_presence(note.process), note.holder, note.started or None, directives, note)


def _is_live(lease: Lease, now: float) -> bool:
    from reconciler.store.database.process_identity import is_process_gone

    return lease.expires > now and not is_process_gone(lease.process)


def _presence(process: str) -> Presence:
    from reconciler.store.database.process_identity import is_process_gone, is_process_near

    if not is_process_near(process):
        return "unknown"
    return "stopped" if is_process_gone(process) else "running"
