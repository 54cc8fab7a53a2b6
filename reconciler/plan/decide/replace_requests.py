"""Sessions that a person wants stopped and started anew though nothing changed, and those that need it.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from reconciler.plan.decide.decision import Decision
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.changes.change import restart
from reconciler.values.state import Desired
from schemas.problems.errors.plan import PlanError

_REPLACE_REQUEST = Cause(CauseCode.REPLACE_REQUEST, "asked for by --replace")


def match_sessions(
    patterns: Sequence[str], desired: Desired, scope: frozenset[str] | None, *, destroy: bool = False
) -> frozenset[str]:
    """The sessions that `patterns` (identities, `*` allowed) mean.

    Raises PlanError for one that means no session, or none that this plan may change.
    """
    if patterns and destroy:
        raise PlanError(why="nothing can be started anew where everything is destroyed")
    found: set[str] = set()
    for pattern in patterns:
        here = {name for name in desired.sessions() if name == pattern or fnmatchcase(name, pattern)}
        if not here:
            hint = "--replace takes sessions that the documents name"
            raise PlanError(why=f"{pattern} names no session", hint=hint)
        outside = sorted(here - scope) if scope is not None else []
        if outside:
            raise PlanError(why=f"{outside[0]} is to be replaced and is not among the targets")
        found |= here
    return frozenset(found)


def request_replacement(decision: Decision, cause: Cause = _REPLACE_REQUEST) -> Decision:
    """The decision with the request added: another generation, in the same place where it runs and may stay.

    What never ran or waits starts anyway, and stays as it is decided.
    """
    existing = decision.existing
    if existing is None or decision.need == "delete" or existing.recorded.phase == "PENDING":
        return decision
    before, generation = existing.recorded.generation, existing.recorded.generation + 1
    stays = decision.need in ("keep", "repair")
    return replace(
        decision,
        need="repair" if stays else "place",
        placement=decision.placement if stays else None,
        changes=(*decision.changes, restart(before, generation)),
        cause=decision.cause.followed_by(cause.text)
        if decision.cause is not None and decision.need != "finish"
        else cause,
        generation=generation,
    )


def error_notes(found: Mapping[str, Decision]) -> Iterator[str]:
    """A line for every session that ended in ERROR and that this plan leaves so."""
    for identity, decision in found.items():
        existing = decision.existing
        left = decision.need in ("ended", "finish") and decision.session is not None
        if left and existing is not None and existing.phase == "ERROR":
            how = existing.reason or existing.recorded.reason or "nobody knows how it ended"
            yield f"{identity} is in ERROR: {how}; --replace {identity} starts it again"


def add_replace_requests(
    found: Mapping[str, Decision], wanted: Iterable[str], failed: Mapping[str, Cause]
) -> dict[str, Decision]:
    """All decisions, those of the sessions in `wanted` and of replicas that `failed` as `request_replacement`
    has them."""
    causes = {**failed, **dict.fromkeys(wanted, _REPLACE_REQUEST)}
    return {
        **found,
        **{name: request_replacement(found[name], why) for name, why in causes.items() if name in found},
    }
