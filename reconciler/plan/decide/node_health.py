"""What the health of nodes means for a plan: GPUs that get no sessions, what is said about them, and who
holds them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from planner.model.types import NodeInfo
from planner.model.unhealthy_devices import unhealthy_sentences
from providers.health.codes import CODES
from providers.health.values import NodeHealth
from reconciler.plan.decide.decision import Decision
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.changes.change import unfit_device
from reconciler.values.plan import Drift, Plan
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import LIVE
from reconciler.values.state import Actual, Existing
from reconciler.values.unfit_gpus import taken_gpus, unfit_gpus, withdrawn_gpus
from schemas.hardware.anonymous import is_anonymous
from schemas.hardware.model import Hardware
from schemas.problems.errors.plan import StalePlan

_MOST = 20


def without_unfit_gpus(info: NodeInfo, health: NodeHealth | None) -> NodeInfo:
    """The node without the GPUs that are unfit now; what was recorded of a GPU counts where it is not known
    how it is now."""
    if health is None or health.facts is None:
        return info
    hardware = _clear_old_complaints(info.hardware, health.judged)
    recorded = frozenset(gpu.id for gpu in hardware.gpus if not gpu.healthy)
    known = {gpu.id for gpu in hardware.gpus}
    ailing = {gpu: why for gpu, why in health.unfit.items() if gpu in known}
    return replace(info, hardware=hardware, unhealthy=recorded.union(ailing), ailing=ailing)


def _clear_old_complaints(hardware: Hardware, judged: frozenset[str]) -> Hardware:
    """Without complaints of the past about GPUs that were looked at now; the same value where there are
    none."""
    if all(gpu.healthy or gpu.id not in judged for gpu in hardware.gpus):
        return hardware
    fresh = {"healthy": True, "health": ()}
    gpus = (gpu.model_copy(update=fresh) if gpu.id in judged else gpu for gpu in hardware.gpus)
    return hardware.model_copy(update={"gpus": tuple(gpus)})


def health_notes(nodes: Iterable[NodeInfo], actual: Actual) -> tuple[str, ...]:
    """Warnings of a plan: every GPU that gets no sessions, whatever else is critical, and how much more there
    is to read."""
    found = [sentence for node in nodes for sentence in unhealthy_sentences(node)]
    found += [each for name in sorted(actual.health) for each in _critical_findings(actual.health[name])]
    found += [
        f"health of {name} is not known: {one.problem}"
        for name, one in sorted(actual.health.items())
        if one.problem
    ]
    more = (f"{len(found) - _MOST} more like these: bai nodes check",) if len(found) > _MOST else ()
    return (*found[:_MOST], *more, *_smaller_findings(actual.health.values()))


def _critical_findings(health: NodeHealth) -> Iterator[str]:
    """Critical findings that `unhealthy_sentences` does not tell: they take no recorded GPU out."""
    for one in health.findings:
        takes = CODES[one.code].takes
        shown = bool(health.judged) if takes == "gpus" else takes == "device" and one.device in health.judged
        if one.severity == "critical" and not shown:
            yield f"{health.node}{f' {one.device}' if one.device else ''}: {one.what}"


def _smaller_findings(nodes: Iterable[NodeHealth]) -> Iterator[str]:
    counts = {one.node: sum(each.severity == "warning" for each in one.findings) for one in nodes}
    found = {node: count for node, count in counts.items() if count}
    if found:
        total, where = sum(found.values()), sorted(found)
        words = "1 smaller finding" if total == 1 else f"{total} smaller findings"
        on = where[0] if len(where) == 1 else f"{len(where)} nodes"
        yield f"{words} on {on}: bai nodes check"


def health_drifts(existing: Existing, health: Mapping[str, NodeHealth]) -> Iterator[Drift]:
    """Live kernels of a session that hold a GPU which is unfit now."""
    placement = existing.recorded.placement
    if placement is None or existing.phase not in HOLDING:
        return
    ids = dict(zip((part.kernel for part in placement.kernels), existing.recorded.kernels, strict=False))
    for unfit in unfit_gpus(placement, health):
        what = f"holds {unfit.name} of {unfit.part.node}, which gets no new sessions: {unfit.why}"
        yield Drift(existing.id, what, ids.get(unfit.part.kernel, unfit.part.kernel))


def refuse_unfit(plan: Plan, ask: Callable[[], Mapping[str, NodeHealth]]) -> None:
    """Raises StalePlan when a session would start on a GPU that has become unfit since the plan was made.
    Nodes that the plan itself provisions are judged afterwards. `ask`: the health of nodes now; not called
    when nothing starts on a device."""
    starting = {
        change.id: change.placement_after
        for change in plan.changes
        if change.verb in ("create", "replace") and change.placement_after
    }
    if not any(part.devices for placement in starting.values() for part in placement.kernels):
        return
    mended = {each.provision.node for each in plan.changes if each.provision}
    health = {node: known for node, known in ask().items() if node not in mended}
    for session, placement in starting.items():
        for unfit in unfit_gpus(placement, health):
            gone = f"{unfit.name} of {unfit.part.node}, which is out of placement now: {unfit.why}"
            raise StalePlan(why=f"{session} would start on {gone}", hint="plan again")


def leave_unfit_gpus(found: Mapping[str, Decision], actual: Actual) -> dict[str, Decision]:
    """The decisions; a session that is to be started again on a GPU that is unfit, that nobody offers now, or
    that others have taken meanwhile, gets another place.

    One that runs is left alone: only what has ended or is replaced anyway moves.
    """
    if actual.offered is None and not any(one.unfit for one in actual.health.values()):
        return dict(found)
    repaired = any(each.need == "repair" and each.placement is not None for each in found.values())
    taken = _taken_devices(actual) if repaired else {}
    return {identity: _leave_unfit_gpu(each, actual, taken) for identity, each in found.items()}


def _taken_devices(actual: Actual) -> Mapping[tuple[str, str], str]:
    """Node and device → who has it, of those whom bai does not give anything: of devices that are known by
    number alone. Another one may still be a session's own, which its cluster is about to take back."""
    return {
        (hold.placement.node, grant.id): hold.owner
        for hold in actual.holds
        if hold.passing
        for grant in hold.placement.devices
        if is_anonymous(grant.id)
    }


def _leave_unfit_gpu(decision: Decision, actual: Actual, taken: Mapping[tuple[str, str], str]) -> Decision:
    existing, placement = decision.existing, decision.placement
    if decision.need != "repair" or existing is None or placement is None:
        return decision
    unfit, offered = unfit_gpus(placement, actual.health), actual.offered
    withdrawn = withdrawn_gpus(placement, offered) if offered is not None else ()
    gone = next(chain(unfit, withdrawn, taken_gpus(placement, taken)), None)
    alive = any(kernel.state in LIVE for kernel in existing.kernels)
    said = "gets no sessions" if gone is None or (gone.part.node, gone.gpu) not in taken else gone.why
    if gone is None or (alive and not decision.replaces):
        return decision
    return replace(
        decision,
        need="place",
        placement=None,
        changes=decision.changes if decision.replaces else (*decision.changes, unfit_device(gone.gpu)),
        cause=decision.cause.followed_by(f"{gone.name} of {gone.part.node} {said}")
        if decision.cause
        else Cause(CauseCode.UNFIT_DEVICE, f"{gone.name} is unfit"),
        generation=max(decision.generation, existing.recorded.generation + 1),
    )
