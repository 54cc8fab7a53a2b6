"""What there is of a resource, as one side of its action. Pure."""

from __future__ import annotations

from reconciler.values.plan import Side
from reconciler.values.state import Existing


def before_side(existing: Existing, *, remade: bool = False) -> Side:
    """What is there: the record, and the kernels that really exist (or are believed to, where nobody looked).

    `remade` leaves out those that were lost, because they will be made again under the same id.
    """
    record = existing.recorded
    seen = {kernel.id for kernel in existing.kernels if not remade or kernel.state == "creating"}
    unseen = {*existing.missing, *existing.away}
    there = tuple(kernel for kernel in record.kernels if kernel not in unseen or kernel in seen)
    return Side(
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
