"""The one entry of deciding: `make_plan(desired, actual, now) -> Plan`. Pure: same inputs, same bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from planner.advice.defragment import Move
from reconciler.guards.judge import Enforced, enforced, judge, with_verdict
from reconciler.guards.signers import Signers
from reconciler.plan.actions.charges import charged
from reconciler.plan.actions.moves import fitting, move_actions, moving, proposed, with_moves
from reconciler.plan.actions.session_actions import other_actions, session_action
from reconciler.plan.actions.volume_actions import volume_drifts, with_folders
from reconciler.plan.context import Case, Place, decisions
from reconciler.plan.decide.drain import still_draining
from reconciler.plan.decide.node_health import health_drifts, health_notes, off_unfit
from reconciler.plan.decide.node_loss import contact_drifts
from reconciler.plan.decide.replace_requests import asked_for, in_error, with_wishes
from reconciler.plan.decide.session_needs import Decision
from reconciler.plan.drift import drifts
from reconciler.plan.images import image_drifts, with_pulls
from reconciler.plan.network.session_networks import Connected, connected, together
from reconciler.plan.nodes.node_actions import bare, node_drifts, with_nodes, with_unready
from reconciler.plan.nodes.occupants import on_nodes
from reconciler.plan.nodes.rollout import closing, rolling
from reconciler.plan.place.snapshot import node_infos
from reconciler.plan.place.solve import Solution, solve
from reconciler.plan.provider_change import refuse_elsewhere
from reconciler.plan.references import closure, making_room, ordered, parse, references
from reconciler.plan.study import Study
from reconciler.plan.warnings import everywhere
from reconciler.values.fingerprint import basis
from reconciler.values.plan import Action, Drift, Plan, Unreached
from reconciler.values.plan_json import sealed
from reconciler.values.records import Recorded
from reconciler.values.state import Actual, Desired
from reconciler.values.violations import Verdict
from schemas.problems.errors import PlanError


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
    without: Collection[str] = (),
    place: Place | None = None,
) -> Plan:
    """What an apply would do, and why the rest is not done.

    `anew`: sessions to stop and start again though nothing changed. `moves`: most sessions to be moved to
    join what is free. `without`: resources to be left as they are. `place` is the planner
    (`planner.place.place` with its built-in policies by default). What is protected, or against a Policy,
    stands in the plan's `violations`. Raises PlanError for a target that names nothing and for a cluster that
    goes to another provider while sessions run.
    """
    if refresh_only and anew:
        raise PlanError(why="nothing can be started anew where only what runs is looked at")
    if moves and (refresh_only or destroy):
        raise PlanError(why="sessions are moved only by a plan of everything that is to run")
    case, unknown = _case(desired, actual, now, targets, anew, place, destroy=destroy)
    case = _with_rolling(replace(case, without=frozenset(without)))
    if refresh_only:
        return sealed(_blank(case, targets))
    return _studied(case, targets, unknown, moves).plan


def make_study(desired: Desired, actual: Actual, now: float, *, place: Place | None = None) -> Study:
    """The plan of everything, with the planner's view of the cluster before and after it."""
    case, unknown = _case(desired, actual, now, (), (), place, destroy=False)
    return _studied(_with_rolling(case), (), unknown)


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
    refuse_elsewhere(desired, actual)
    nodes, unknown = node_infos(desired, actual)
    scope = _scope(desired, actual, targets, destroy=destroy)
    wanted = asked_for(anew, desired, scope, destroy=destroy)
    planner = together(place or _planner(), desired, actual)
    return Case(desired, actual, now, nodes, planner, scope, destroy, wanted), unknown


def _with_rolling(case: Case) -> Case:
    """The case with what becomes of nodes that differ from their profiles; those of this plan's wave take
    nothing new."""
    found = None if case.destroy else rolling(case.desired, case.actual, case.touches, case.without)
    nodes = dict(case.nodes)
    for name, why in closing(found):
        if name in nodes and nodes[name].state == "active":
            nodes[name] = replace(nodes[name], state="cordoned", note=why)
    return replace(case, rolling=found, nodes=nodes)


def _studied(case: Case, targets: Sequence[str], unknown: tuple[str, ...], most: int = 0) -> Study:
    found = with_wishes(decisions(case), case.anew if case.actual.complete else ())
    found = off_unfit(found, case.actual)
    solution = solve(case, found)
    solution = replace(solution, waits=with_unready(case, solution.waits))
    blank = _blank(case, targets)
    moves: tuple[Move, ...] = ()
    notes = (*unknown, *in_error(found), *still_draining(case, found))
    notes += health_notes(case.nodes.values(), case.actual)
    if most:
        after = Study(blank, case, solution).after
        moves = proposed(case, found, after, most)
        solution = replace(solution, outcome=with_moves(case, solution.outcome, after, moves))
        notes += tuple(fitting(case, after, moves))
    case = replace(case, connected=_connected(case, found, solution, moves))
    going = {move.session for move in moves}
    sessions = (session_action(case, each, solution) for each in found.values() if each.id not in going)
    all_, said = with_folders(
        case,
        [
            *(each for each in sessions if each is not None),
            *move_actions(case, found, moves),
            *other_actions(case),
        ],
    )
    all_, rollout = with_nodes(case, with_pulls(case, all_))
    actions = ordered(all_, case.desired.resources, case.desired.repository)
    actions = making_room(actions, solution.outcome.evictions)
    actions = charged(case, actions, solution.outcome.groups)
    plan = replace(_filled(blank, case, actions, solution, notes, said), rollout=rollout)
    return Study(sealed(with_verdict(plan, _verdict(case, plan))), case, solution)


def policies_of(
    desired: Desired, actual: Actual, *, destroy: bool = False
) -> tuple[Mapping[str, Recorded], tuple[Enforced, ...]]:
    """What is recorded, and the policies that hold. Raises PlanError as `enforced` does."""
    recorded = {identity: each.recorded for identity, each in actual.existing.items()}
    digests = {} if destroy else desired.digests
    return recorded, enforced(recorded, digests, desired.documents)


def _verdict(case: Case, plan: Plan) -> Verdict:
    recorded, policies = policies_of(case.desired, case.actual, destroy=case.destroy)
    signers = Signers.of(case.actual.images, case.actual.unanswered)
    return judge(plan.actions, policies, recorded, plan.quotas, case.now, signers)


def _connected(
    case: Case, found: Mapping[str, Decision], solution: Solution, moves: Sequence[Move]
) -> Mapping[str, Connected]:
    """The networks of all that starts or goes on."""
    places = {each.id: each.placement for each in found.values() if each.need == "repair" and each.placement}
    places |= {i: at for i, at in solution.placements.items() if i in found and i not in solution.kept}
    going = {move.session: moving(found[move.session]) for move in moves}
    places |= {move.session: move.after for move in moves}
    return connected(case.desired, case.actual, case.nodes, {**found, **going}, places)


def _blank(case: Case, targets: Sequence[str]) -> Plan:
    """The plan before anything is decided."""
    desired, actual = case.desired, case.actual
    fresh = bare(desired, actual)
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
        unreached=tuple(
            Unreached(node, one.why, one.since)
            for node, one in sorted(actual.missed.items())
            if node not in fresh
        ),
        made_at=case.now,
    )


def _filled(
    blank: Plan,
    case: Case,
    actions: tuple[Action, ...],
    solution: Solution,
    notes: tuple[str, ...],
    said: tuple[str, ...],
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
            *said,
            *outcome.warnings,
            *(everywhere(case.actual.capabilities) if starts else ()),
        ),
    )


def _planner() -> Place:
    from planner.place import place

    return place


def _drifts(case: Case) -> tuple[Drift, ...]:
    found = (drifts(each, case.actual.capabilities) for _, each in sorted(case.actual.existing.items()))
    away = (
        contact_drifts(each, case.actual, case.desired, case.now)
        for _, each in sorted(case.actual.existing.items())
    )
    sick = (health_drifts(each, case.actual.health) for _, each in sorted(case.actual.existing.items()))
    images = (image_drifts(case, each) for _, each in sorted(case.actual.existing.items()))
    own = (drift for each in (*found, *away, *sick, *images) for drift in each)
    return (*own, *volume_drifts(case), *node_drifts(case.actual))


def _observation(actual: Actual) -> tuple[str, ...]:
    warnings = []
    if not actual.complete:
        why = "; ".join(actual.errors) or "the provider could not say why"
        warnings.append(f"what runs could not be observed completely, no session is touched: {why}")
    if actual.unlabelled:
        warnings.append(f"found without readable labels, left alone: {', '.join(sorted(actual.unlabelled))}")
    if actual.claimed:
        claims = ", ".join(sorted(f"{each.kernel} on {each.node}" for each in actual.claimed))
        warnings.append(f"nodes show kernels that are other nodes', which is not believed: {claims}")
    return (*warnings, *actual.doubts)


def _scope(
    desired: Desired, actual: Actual, targets: Sequence[str], *, destroy: bool
) -> frozenset[str] | None:
    """What a target takes along: what it refers to, and those who have to leave a node; when it is
    destroyed, what refers to it."""
    if not targets:
        return None
    if not destroy:
        named = closure(targets, desired.resources, actual.existing, desired.repository)
        leavers = on_nodes(actual, named)
        return named | closure(leavers, desired.resources, actual.existing, desired.repository)
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
