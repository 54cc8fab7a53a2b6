"""`bai explain`: why a session is where it is, or why it waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bai.queries.names.resource_names import resolve_name
from bai.queries.names.service_names import find_service, service_part
from bai.queries.services.explanation import explain_service
from bai.render.analysis.explain import Explanation, explanation_sections
from bai.render.printout import Printout, Report
from reconciler.guards.judge import violation_text
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from bai.queries.models import ExplainQuery
    from bai.queries.view import ClusterView
    from planner.advice.node_shortfalls import NeedFit, NodeFit
    from planner.model.types import Placement
    from reconciler.plan.study import Study
    from reconciler.values.plan import Action


def answer(view: ClusterView, query: ExplainQuery) -> Printout:
    """Raises NoSuchResource, AmbiguousName."""
    if service_part(query.session):
        known = {each for each in {*view.wanted, *view.observed.existing} if view.sees(each)}
        if service := find_service(query.session, known):
            return explain_service(view, service, query)
    found = explain_session(view, query.session)
    if query.form == "json":
        from bai.render.analysis.explain_json import explanation_json

        return Printout("bai.explanation/v1", explanation_json(found))
    return Printout(blocks=(Report(tuple(explanation_sections(found, query.nodes))),))


def explain_session(view: ClusterView, name: str) -> Explanation:
    """Raises NoSuchResource, AmbiguousName, and what looking raises."""
    study = view.study
    desired = study.context.desired
    existing = study.context.actual.existing
    known = {each for each in {*desired.sessions(), *existing} if view.sees(each)}
    identity = resolve_name(name, known, "Session")
    item, session = existing.get(identity), desired.sessions().get(identity)
    action = next((each for each in study.plan.actions if each.id == identity), None)
    wait = study.placed.waits.get(identity)
    now = item.recorded.placement if item is not None else None
    group = (session.spec.resource_group if session else "") or (now.group if now else "")
    rules = desired.groups.get(group)
    return Explanation(
        id=identity,
        phase=item.phase if item is not None else "",
        reason=(item.reason or item.recorded.reason) if item is not None else "",
        plan=_planned_effect(action),
        group=group,
        selection=rules.spec.selection if rules else "",
        now=now,
        then=_planned_placement(action, now),
        wait=wait,
        queue=tuple(
            each.session
            for each in study.plan.waits
            if wait and each.group == wait.group and each.position > 0
        ),
        needs=_near_nodes(view, study, identity),
        refused=tuple(violation_text(one) for one in study.plan.violations if identity in one.resources),
        nodes=study.context.nodes,
    )


def _planned_effect(action: Action | None) -> str:
    from bai.render.plan.changes import change_kind

    if action is None or action.verb == "no-op":
        return ""
    does = "put it into its queue" if change_kind(action) == "queue" else f"{change_kind(action)} it"
    return does + (f" ({action.why})" if action.why else "")


def _planned_placement(action: Action | None, now: Placement | None) -> Placement | None:
    then = action.placement_after if action is not None else None
    return then if then is not None and (now is None or then.kernels != now.kernels) else None


def _near_nodes(view: ClusterView, study: Study, identity: str) -> tuple[NeedFit, ...]:
    """How close each node comes, for a session that waits for nodes."""
    from planner.advice.node_shortfalls import rank_nodes

    after = study.after
    session = next((one for one in after.pending if one.id == identity), None)
    group = next((one for one in after.groups if session and one.name == session.group), None)
    if session is None or group is None or not session.kernels:
        return ()
    return tuple(
        replace(need, nodes=tuple(_seen_fit(view, fit) for fit in need.nodes))
        for need in rank_nodes(after, group, session)
    )


def _seen_fit(view: ClusterView, fit: NodeFit) -> NodeFit:
    """Without the labels that a document gives the node, where that is not for the viewer."""
    if view.sees(identity_of("Node", fit.node)):
        return fit
    hidden = "does not have the labels that are asked for"
    lacks = (replace(one, message=hidden) if one.code == "label" else one for one in fit.lacks)
    return replace(fit, lacks=tuple(dict.fromkeys(lacks)))
