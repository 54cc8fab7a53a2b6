"""One action as the ordered steps that carry it out, computed from the plan alone, so that a saved plan
applies exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from planner.model.types import KernelPlacement, Placement
from providers.base import KernelSpec
from providers.storage.base import TrashedVolume, VolumeFolder
from reconciler.values.encoding.placement_json import canonical_json
from reconciler.values.plan import Action, Plan
from reconciler.values.records import Ghost, Phase, Recorded, Result
from reconciler.values.rollout import Provision
from reconciler.values.services.pattern import drain_of, replica_ref
from reconciler.values.session_phase import ENDED, UNFINISHED
from reconciler.values.sides import (
    AppProxySide,
    ImageSide,
    NodeSide,
    Pull,
    ServiceSide,
    SessionSide,
    Side,
    VolumeSide,
)
from reconciler.values.volume_folders import trash_entry
from schemas.values.resource_ref import identity_of, ref_of

StepKind = Literal[
    "record", "create", "update", "drain", "stop", "remove", "forget", "make", "trash", "pull", "provision",
    "probe", "ready",
]  # fmt: skip
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
    - `drain`: a replica's kernel gets no further requests, and at most `grace` seconds for those it has.
    - `stop` (gracefully, `grace` seconds; with `signal` as a notice before the kernel's own), `remove`: by
      `kernel_id`.
    - `forget`: remove the resource's record.
    - `pull`: bring an image to a node. A `create` has one too, for the image that its kernel needs.
    - `provision`: bring a node to its profile; `probe`: see what it is now; `ready`: write down that it may
      take sessions.
    - `make`: bring a volume's `folder` to what it must be. `trash`: move it aside, under `entry`.
    """

    kind: StepKind
    resource: str
    kernel_id: str = ""
    spec: KernelSpec | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    grace: float = DEFAULT_GRACE
    signal: str = ""
    stays: bool = False
    """For `stop`: the kernel is not removed afterwards, so that it must have ended when the step is done."""
    record: Recorded | None = None
    folder: VolumeFolder | None = None
    entry: TrashedVolume | None = None
    pull: Pull | None = None
    provision: Provision | None = None

    @property
    def key(self) -> str:
        """Unique within an action: what the journal calls this step."""
        phase = f":{self.record.phase}" if self.record is not None else ""
        return f"{self.kind}:{self.kernel_id or self.resource}{phase}"


def action_steps(action: Action, plan: Plan) -> tuple[Step, ...]:
    """The steps of one action, in order; empty for a no-op."""
    if action.verb == "no-op":
        return ()
    if ref_of(action.id).kind == "Kernel":
        return tuple(_drop_steps(action, action.session_before.kernels if action.session_before else ()))
    match action.after:
        case None:
            return tuple(_delete_steps(action, plan))
        case SessionSide() as after if after.phase == "RUNNING":
            return tuple(_run_steps(action, plan, after))
        case SessionSide() as after:
            return tuple(_idle_steps(action, plan, after))
        case VolumeSide() as after if after.folder:
            return (Step("make", action.id, folder=after.folder), _record_step(action, plan, after))
        case ImageSide() as after:
            return (*_pull_steps(action, after), _record_step(action, plan, after))
        case NodeSide() as after if after.provision:
            return (*_document_steps(action, plan, after), *_join_steps(after.provision))
        case after:
            return (_record_step(action, plan, after),)


def _document_steps(action: Action, plan: Plan, after: NodeSide) -> tuple[Step, ...]:
    """What is recorded of a node that is provisioned: nothing where its document says what it said, or where
    it has none."""
    same = action.before is not None and action.before.digest == after.digest
    return () if same or not after.digest else (_record_step(action, plan, after),)


def _join_steps(wanted: Provision) -> Iterator[Step]:
    """Verified by its provisioning, and probed anew, a node joins."""
    identity = identity_of("Node", wanted.node)
    yield Step("provision", identity, wanted.node, provision=wanted)
    if wanted.probe:
        yield Step("probe", identity, wanted.node, provision=wanted)
    yield Step("ready", identity, wanted.node, provision=wanted)


def _delete_steps(action: Action, plan: Plan) -> Iterator[Step]:
    before, session = action.before, action.session_before
    if session is not None and session.kernels:
        yield _record_step(action, plan, session, phase="TERMINATING")
        yield from _drop_steps(action, session.kernels)
    if isinstance(before, VolumeSide) and before.folder is not None:
        entry = trash_entry(before.folder, before.document, plan.made_at, plan.commit)
        yield Step("trash", action.id, folder=before.folder, entry=entry)
    if before is not None and action.ghosts:
        yield _record_step(action, plan, _ghost_record(before, action.ghosts))
    else:
        yield Step("forget", action.id)


def _ghost_record(before: Side, ghosts: tuple[Ghost, ...]) -> SessionSide:
    """What is left of a deleted session until its ghosts are gone: so that nothing new takes their names."""
    where = ", ".join(sorted({ghost.node for ghost in ghosts}))
    reason = f"deleted, but may still run on {where}, which is not reached"
    return SessionSide(before.generation, "", phase="TERMINATED", reason=reason, ghosts=ghosts)


def _run_steps(action: Action, plan: Plan, after: SessionSide) -> Iterator[Step]:
    """What must go first goes first; then what is new is created, and what stays is brought up to date."""
    side = action.session_before
    before = side.kernels if side else ()
    old = tuple(kernel for kernel in before if kernel not in after.kernels)
    if old and side and side.generation != after.generation and side.phase not in ENDED:
        yield _record_step(action, plan, side, phase="TERMINATING")
    yield from _drop_steps(action, old)
    new = [spec for spec in after.specs if spec.id not in before]
    if action.verb == "update":
        # A kernel that was lost is still there in part, and creating it would find it.
        yield from (Step("remove", action.id, spec.id) for spec in new)
    again = bool(side and side.phase in UNFINISHED)
    if new or again:
        yield _record_step(action, plan, after, phase="CREATING")
    labelled = [(spec, _with_labels(spec, after)) for spec in after.specs]
    yield from (
        Step("update", action.id, s.id, full, after.secrets) for s, full in labelled if s.id in before
    )
    # Whoever was creating it may have died in the midst of it: created again, it is found or started.
    yield from (
        Step("create", action.id, s.id, full, after.secrets, pull=_pull_of_kernel(after, s))
        for s, full in labelled
        if again or s.id not in before
    )
    yield _record_step(action, plan, after)


def _pull_steps(action: Action, after: ImageSide) -> Iterator[Step]:
    """An image to the nodes that are to have it."""
    yield from (Step("pull", action.id, pull.node, pull=pull) for pull in after.pulls)


def _pull_of_kernel(after: SessionSide, spec: KernelSpec) -> Pull | None:
    """What brings a kernel's image to its node."""
    wanted = (spec.labels.node, spec.image)
    return next((pull for pull in after.pulls if (pull.node, pull.image) == wanted), None)


def _idle_steps(action: Action, plan: Plan, after: SessionSide) -> Iterator[Step]:
    """Nothing shall run: the session waits, or has ended and keeps its kernels' exit codes and logs."""
    before = action.session_before
    old = tuple(kernel for kernel in (before.kernels if before else ()) if kernel not in after.kernels)
    if old and before and before.generation != after.generation and before.phase not in ENDED:
        yield _record_step(action, plan, before, phase="TERMINATING")
    yield from _drop_steps(action, old)
    if before and before.phase not in (*ENDED, "PENDING"):
        left = tuple(kernel for kernel in after.kernels if kernel in before.kernels)
        yield from (replace(step, stays=True) for step in _stop_steps(action, left))
    yield _record_step(action, plan, after)


def _drop_steps(action: Action, kernels: tuple[str, ...]) -> Iterator[Step]:
    yield from _stop_steps(action, kernels)
    yield from (Step("remove", action.id, kernel) for kernel in kernels)


def _stop_steps(action: Action, kernels: tuple[str, ...]) -> Iterator[Step]:
    grace, signal = _stop_grace(action), action.notice.signal if action.notice else ""
    drain = _drain_grace(action)
    yield from (Step("drain", action.id, kernel, grace=drain) for kernel in kernels if drain)
    yield from (Step("stop", action.id, kernel, grace=grace, signal=signal) for kernel in kernels)


def _stop_grace(action: Action) -> float:
    """Seconds that the plan gives them, else the document which the kernels were made from."""
    if action.notice is not None:
        return action.notice.grace
    from schemas.values.quantities import parse_duration

    side = action.before or action.after
    spec = side.document.get("spec") if side else None
    stop = spec.get("stop") if isinstance(spec, Mapping) else None
    grace = stop.get("grace") if isinstance(stop, Mapping) else None
    try:
        return float(parse_duration(grace)) if grace is not None else DEFAULT_GRACE
    except ValueError:
        return DEFAULT_GRACE


def _drain_grace(action: Action) -> float:
    """Seconds that a replica has for requests that it was given; 0 for what is none, or has ended."""
    before = action.session_before
    ref = replica_ref(action.id, before.document) if before is not None else None
    return drain_of(before.document) if ref and before and before.phase not in ENDED else 0.0


def _with_labels(spec: KernelSpec, side: SessionSide) -> KernelSpec:
    part = _kernel_placement(side.placement, spec.labels.kernel)
    labels = replace(
        spec.labels, document=canonical_json(side.document), placement=canonical_json(part) if part else ""
    )
    return replace(spec, labels=labels)


def _kernel_placement(placement: Placement | None, kernel: str) -> KernelPlacement | None:
    return next((part for part in placement.kernels if part.kernel == kernel), None) if placement else None


def _record_step(action: Action, plan: Plan, side: Side, phase: Phase | None = None) -> Step:
    """What the store holds of this side from here on."""
    record = Recorded(
        resource=action.id,
        cluster=action.cluster,
        generation=side.generation,
        digest=side.digest,
        document=side.document,
        protected=_is_protected(side.document),
        commit=plan.commit,
    )
    if isinstance(side, SessionSide):
        record = _session_record(record, side, phase or cast(Phase, side.phase))
    if isinstance(side, ServiceSide):
        record = replace(record, service=side.state)
    if isinstance(side, AppProxySide):
        record = replace(record, app_ports=side.app_ports)
    return Step("record", action.id, record=record)


def _session_record(record: Recorded, side: SessionSide, phase: Phase) -> Recorded:
    return replace(
        record,
        phase=phase,
        placement=side.placement,
        kernels=side.kernels,
        enqueued_at=side.enqueued_at,
        result=cast(Result, side.result),
        exit_codes=dict(side.exit_codes),
        skips=side.skips,
        reason=side.reason,
        ghosts=side.ghosts,
        account=side.account,
    )


def _is_protected(document: Mapping[str, object]) -> bool:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get("bai/protect") == "true"
