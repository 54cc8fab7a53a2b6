"""What there is of a resource, as one side of its action. Pure."""

from __future__ import annotations

from reconciler.values.sides import AnySide, AppProxySide, ServiceSide, SessionSide, side_type
from reconciler.values.state import Existing
from schemas.values.resource_ref import ref_of


def before_side(existing: Existing) -> AnySide:
    """What is there: of a session the record, and the kernels that really exist."""
    kind = ref_of(existing.id).kind
    if side_type(kind) is SessionSide:
        return session_side(existing)
    record = existing.recorded
    if side_type(kind) is ServiceSide:
        return ServiceSide(record.generation, record.digest, record.document, record.service)
    if side_type(kind) is AppProxySide:
        return AppProxySide(record.generation, record.digest, record.document, record.app_ports)
    return side_type(kind)(record.generation, record.digest, record.document)


def session_side(existing: Existing, *, remade: bool = False) -> SessionSide:
    """The record, and the kernels that really exist (or are believed to, where nobody looked).

    `remade` leaves out those that were lost, because they will be made again under the same id.
    """
    record = existing.recorded
    seen = {kernel.id for kernel in existing.kernels if not remade or kernel.state == "creating"}
    unseen = {*existing.missing, *existing.away}
    there = tuple(kernel for kernel in record.kernels if kernel not in unseen or kernel in seen)
    return SessionSide(
        generation=record.generation,
        digest=record.digest,
        document=record.document,
        phase=existing.phase,
        placement=record.placement,
        kernels=there + tuple(kernel.id for kernel in existing.strays),
        enqueued_at=record.enqueued_at,
        skips=record.skips,
        reason=existing.reason,
        result=existing.result,
        exit_codes=dict(existing.exit_codes),
        ghosts=record.ghosts,
        account=record.account,
    )
