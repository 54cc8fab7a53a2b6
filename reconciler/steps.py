"""One action as the ordered steps that carry it out, computed from the plan alone, so that a saved plan
applies exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from planner.types import KernelPlacement, Placement
from providers.base import KernelSpec
from reconciler.derive import ENDED, UNFINISHED
from reconciler.plan import Action, Plan, Side
from reconciler.plan_values import compact
from reconciler.records import Phase, Recorded, Result

StepKind = Literal["record", "create", "update", "stop", "remove", "forget"]
DEFAULT_GRACE = 10.0


@dataclass(frozen=True, slots=True)
class Step:
    """One effect, or one write to the store.

    - `record`: write `record`; where its `started_at`/`finished_at` are None, apply keeps the store's value
      and fills in its own clock's
      when the phase has just become RUNNING (started) or TERMINATED, ERROR, CANCELLED (finished).
    - `create`, `update`: `spec` to the provider, after the references in `secrets` (variable → reference)
      have been resolved into
      `spec.secret_env`.
    - `stop` (gracefully, `grace` seconds, with `signal` in place of the kernel's own), `remove`: by
      `kernel_id`.
    - `forget`: remove the resource's record.
    """

    kind: StepKind
    resource: str
    kernel_id: str = ""
    spec: KernelSpec | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    grace: float = DEFAULT_GRACE
    signal: str = ""
    record: Recorded | None = None

    @property
    def key(self) -> str:
        """Unique within an action: what the journal calls this step."""
        phase = f":{self.record.phase}" if self.record is not None else ""
        return f"{self.kind}:{self.kernel_id or self.resource}{phase}"


def steps(action: Action, plan: Plan) -> tuple[Step, ...]:
    """The steps of one action, in order; empty for a no-op."""
    if action.verb == "no-op":
        return ()
    if action.id.startswith("Kernel/"):
        return tuple(_drop(action, action.before.kernels if action.before else ()))
    if action.after is None:
        return tuple(_delete(action, plan))
    if not action.id.startswith("Session/"):
        return (_record(action, plan, action.after),)
    if action.after.phase == "RUNNING":
        return tuple(_run(action, plan, action.after))
    return tuple(_rest(action, plan, action.after))


def _delete(action: Action, plan: Plan) -> Iterator[Step]:
    before = action.before
    if before is not None and before.kernels:
        yield _record(action, plan, before, phase="TERMINATING")
        yield from _drop(action, before.kernels)
    yield Step("forget", action.id)


def _run(action: Action, plan: Plan, after: Side) -> Iterator[Step]:
    """What must go first goes first; then what is new is created, and what stays is brought up to date."""
    before = action.before.kernels if action.before else ()
    old = tuple(kernel for kernel in before if kernel not in after.kernels)
    if (
        old
        and action.before
        and action.before.generation != after.generation
        and action.before.phase not in ENDED
    ):
        yield _record(action, plan, action.before, phase="TERMINATING")
    yield from _drop(action, old)
    new = [spec for spec in after.specs if spec.id not in before]
    if action.verb == "update":
        # A kernel that was lost is still there in part, and creating it would find it.
        yield from (Step("remove", action.id, spec.id) for spec in new)
    again = bool(action.before and action.before.phase in UNFINISHED)
    if new or again:
        yield _record(action, plan, after, phase="CREATING")
    labelled = [(spec, _labelled(spec, action, plan, after)) for spec in after.specs]
    yield from (
        Step("update", action.id, s.id, full, after.secrets) for s, full in labelled if s.id in before
    )
    # Whoever was creating it may have died in the midst of it: created again, it is found or started.
    yield from (
        Step("create", action.id, s.id, full, after.secrets)
        for s, full in labelled
        if again or s.id not in before
    )
    yield _record(action, plan, after)


def _rest(action: Action, plan: Plan, after: Side) -> Iterator[Step]:
    """Nothing shall run: the session waits, or has ended and keeps its kernels' exit codes and logs."""
    before = action.before
    old = tuple(kernel for kernel in (before.kernels if before else ()) if kernel not in after.kernels)
    if old and before and before.generation != after.generation and before.phase not in ENDED:
        yield _record(action, plan, before, phase="TERMINATING")
    yield from _drop(action, old)
    if before and before.phase not in (*ENDED, "PENDING"):
        yield from (Step("stop", action.id, kernel, grace=_grace(action)) for kernel in after.kernels)
    yield _record(action, plan, after)


def _drop(action: Action, kernels: tuple[str, ...]) -> Iterator[Step]:
    grace, signal = _grace(action), action.notice.signal if action.notice else ""
    yield from (Step("stop", action.id, kernel, grace=grace, signal=signal) for kernel in kernels)
    yield from (Step("remove", action.id, kernel) for kernel in kernels)


def _grace(action: Action) -> float:
    """Seconds that the plan gives them, else the document which the kernels were made from."""
    if action.notice is not None:
        return action.notice.grace
    from schemas.quantities import parse_duration

    side = action.before or action.after
    spec = side.document.get("spec") if side else None
    stop = spec.get("stop") if isinstance(spec, Mapping) else None
    grace = stop.get("grace") if isinstance(stop, Mapping) else None
    try:
        return float(parse_duration(grace)) if grace is not None else DEFAULT_GRACE
    except ValueError:
        return DEFAULT_GRACE


def _labelled(spec: KernelSpec, action: Action, plan: Plan, side: Side) -> KernelSpec:
    part = _part(side.placement, spec.labels.kernel)
    labels = replace(spec.labels, document=compact(side.document), placement=compact(part) if part else "")
    return replace(spec, labels=labels)


def _part(placement: Placement | None, kernel: str) -> KernelPlacement | None:
    return next((part for part in placement.kernels if part.kernel == kernel), None) if placement else None


def _record(action: Action, plan: Plan, side: Side, phase: Phase | None = None) -> Step:
    """What the store holds of this side from here on."""
    record = Recorded(
        resource=action.id,
        cluster=action.cluster,
        generation=side.generation,
        digest=side.digest,
        document=side.document,
        phase=phase or cast(Phase, side.phase),
        placement=side.placement,
        kernels=side.kernels,
        protected=_protected(side.document),
        commit=plan.commit,
        enqueued_at=side.enqueued_at,
        result=cast(Result, side.result),
        exit_codes=dict(side.exit_codes),
        skips=side.skips,
        reason=side.reason,
    )
    return Step("record", action.id, record=record)


def _protected(document: Mapping[str, object]) -> bool:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get("bai/protect") == "true"
