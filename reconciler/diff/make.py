"""The one entry of deciding: `make_plan(desired, actual, now) -> Plan`. Pure: same inputs, same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.defragment import Move
from reconciler.actual import Actual, Desired
from reconciler.basis import basis
from reconciler.diff.actions import other_actions, session_action
from reconciler.diff.anew import asked_for, in_error, with_wishes
from reconciler.diff.case import Case, Place, decisions
from reconciler.diff.drift import drifts
from reconciler.diff.graph import closure, making_room, ordered, parse, references
from reconciler.diff.move import fitting, move_actions, proposed, with_moves
from reconciler.diff.snapshot import node_infos
from reconciler.diff.solve import Solution, solve
from reconciler.diff.study import Study
from reconciler.diff.warn import everywhere
from reconciler.plan import Action, Drift, Plan
from reconciler.plan_json import sealed
from schemas.errors import GuardRefused, PlanError


def make_plan(
    desired: Desired,
    actual: Actual,
    now: float,
    *,
    targets: Sequence[str] = (),
    refresh_only: bool = False,
    destroy: bool = False,
    anew: Sequence[str] = (),
    moves: int = 0,
    place: Place | None = None,
) -> Plan:
    """What an apply would do, and why the rest is not done.

    `anew`: sessions to stop and start again though nothing changed. `moves`: most sessions to be moved to
    join what is free. `place` is the planner
    (`planner.place.place` with its built-in policies by default). Raises GuardRefused when a protected
    resource would be deleted, PlanError for a target that names nothing.
    """
    if refresh_only and anew:
        raise PlanError(why="nothing can be started anew where only what runs is looked at")
    if moves and (refresh_only or destroy):
        raise PlanError(why="sessions are moved only by a plan of everything that is to run")
    case, unknown = _case(desired, actual, now, targets, anew, place, destroy=destroy)
    if refresh_only:
        return sealed(_blank(case, targets))
    plan = _studied(case, targets, unknown, moves).plan
    _guard(plan.actions)
    return plan


def make_study(desired: Desired, actual: Actual, now: float, *, place: Place | None = None) -> Study:
    """The plan of everything, with the planner's view of the cluster before and after it; to be read only, so
    that no guard refuses it."""
    case, unknown = _case(desired, actual, now, (), (), place, destroy=False)
    return _studied(case, (), unknown)


def _case(
    desired: Desired,
    actual: Actual,
    now: float,
    targets: Sequence[str],
    anew: Sequence[str],
    place: Place | None,
    *,
    destroy: bool,
) -> tuple[Case, tuple[str, ...]]:
    """The case, and warnings about nodes that cannot be used."""
    nodes, unknown = node_infos(desired, actual)
    scope = _scope(desired, actual, targets, destroy=destroy)
    wanted = asked_for(anew, desired, scope, destroy=destroy)
    return Case(desired, actual, now, nodes, place or _planner(), scope, destroy, wanted), unknown


def _studied(case: Case, targets: Sequence[str], unknown: tuple[str, ...], most: int = 0) -> Study:
    found = with_wishes(decisions(case), case.anew if case.actual.complete else ())
    solution = solve(case, found)
    blank = _blank(case, targets)
    moves: tuple[Move, ...] = ()
    notes = (*unknown, *in_error(found))
    if most:
        after = Study(blank, case, solution).after
        moves = proposed(case, found, after, most)
        solution = replace(solution, outcome=with_moves(case, solution.outcome, after, moves))
        notes += tuple(fitting(case, after, moves))
    going = {move.session for move in moves}
    sessions = (session_action(case, each, solution) for each in found.values() if each.id not in going)
    actions = ordered(
        [
            *(each for each in sessions if each is not None),
            *move_actions(case, found, moves),
            *other_actions(case),
        ],
        case.desired.resources,
        case.desired.repository,
    )
    actions = making_room(actions, solution.outcome.evictions)
    plan = sealed(_filled(blank, case, actions, solution, notes))
    return Study(plan, case, solution)


def _blank(case: Case, targets: Sequence[str]) -> Plan:
    """The plan before anything is decided."""
    desired, actual = case.desired, case.actual
    return Plan(
        repo=desired.repo,
        cluster=desired.cluster,
        commit=desired.commit,
        tree=desired.tree,
        basis=basis(actual),
        complete=actual.complete,
        actions=(),
        drifts=_drifts(case),
        warnings=_observation(actual),
        targets=tuple(sorted(targets)),
        made_at=case.now,
    )


def _filled(
    blank: Plan, case: Case, actions: tuple[Action, ...], solution: Solution, notes: tuple[str, ...]
) -> Plan:
    outcome = solution.outcome
    starts = any(action.after and action.after.specs for action in actions if action.verb != "no-op")
    return replace(
        blank,
        actions=actions,
        waits=tuple(
            sorted(solution.waits.values(), key=lambda wait: (wait.group, wait.position, wait.session))
        ),
        quotas=outcome.quotas,
        groups=outcome.groups,
        warnings=(
            *blank.warnings,
            *(() if case.destroy else map(str, case.desired.repository.warnings)),
            *(() if case.destroy else notes),
            *outcome.warnings,
            *(everywhere(case.actual.capabilities) if starts else ()),
        ),
    )


def _planner() -> Place:
    from planner.place import place

    return place


def _drifts(case: Case) -> tuple[Drift, ...]:
    found = (drifts(each, case.actual.capabilities) for _, each in sorted(case.actual.existing.items()))
    return tuple(drift for each in found for drift in each)


def _observation(actual: Actual) -> tuple[str, ...]:
    warnings = []
    if not actual.complete:
        why = "; ".join(actual.errors) or "the provider could not say why"
        warnings.append(f"what runs could not be observed completely, no session is touched: {why}")
    if actual.unlabelled:
        warnings.append(f"found without readable labels, left alone: {', '.join(sorted(actual.unlabelled))}")
    return tuple(warnings)


def _guard(actions: Iterable[Action]) -> None:
    refused = [action.id for action in actions if action.verb == "delete" and action.protected]
    if refused:
        others = f"also protected: {', '.join(refused[1:])}; " if refused[1:] else ""
        hint = f'{others}apply it without the annotation bai/protect: "true" first'
        raise GuardRefused(resource=refused[0], hint=hint)


def _scope(
    desired: Desired, actual: Actual, targets: Sequence[str], *, destroy: bool
) -> frozenset[str] | None:
    """What a target takes along: what it refers to; when it is destroyed, what refers to it."""
    if not targets:
        return None
    if not destroy:
        return closure(targets, desired.resources, actual.existing, desired.repository)
    refers: dict[str, set[str]] = {}
    for identity, each in actual.existing.items():
        item = parse(identity, each.recorded.document)
        for ref in references(item, desired.repository) if item else ():
            refers.setdefault(ref, set()).add(identity)
    done: set[str] = set()
    todo = set(closure(targets, {}, {*actual.existing, *desired.resources}, desired.repository))
    while todo:
        identity = todo.pop()
        done.add(identity)
        todo |= refers.get(identity, set()) - done
    return frozenset(done)
