"""`bai explain service/NAME`: why a service is where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.queries.services.facts import service_facts
from bai.render.humanize import clean
from bai.render.plan.services import headroom_words, progress_words
from bai.render.plan.waits import wait_lines
from bai.render.printout import Printout, Report, Section, Table
from bai.render.resources.services import order_words, service_json
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.queries.models import ExplainQuery
    from bai.queries.view import ClusterView
    from bai.render.resources.services import ServiceFacts
    from planner.model.types import Wait


def explain_service(view: ClusterView, identity: str, query: ExplainQuery) -> Printout:
    """Raises what looking raises."""
    found = service_facts(view, identity)
    sessions = {each.session for each in found.status.replicas} if found.status is not None else set()
    waits = [wait for name, wait in sorted(view.waits.items()) if name in sessions]
    if query.form == "json":
        told = [{"session": each.session, "why": wait_lines(each)} for each in waits]
        return Printout("bai.explanation/v1", {"id": identity, **service_json(found), "waits": told})
    return Printout(blocks=(Report(tuple(_sections(found, waits))),))


def _sections(found: ServiceFacts, waits: list[Wait]) -> Iterator[Section]:
    status = found.status
    if status is None:
        yield Section(found.id, ("no plan has come to it yet",))
        return
    yield Section(f"{found.id}: {status.phase}", tuple(_status_lines(found)))
    rows = tuple(
        (ref_of(each.session).name, each.phase, each.generation, found.nodes.get(each.session, ""), each.why)
        for each in status.replicas
    )
    if rows:
        table = Table(("replica", "phase", "generation", "node", "why"), rows)
        yield Section("Replicas", (table,), 2)
    for wait in waits:
        title = f"Why {clean(ref_of(wait.session).name)} waits"
        yield Section(title, tuple(wait_lines(wait)), 2)


def _status_lines(found: ServiceFacts) -> Iterator[str]:
    assert found.status is not None
    status = found.status
    if status.why:
        yield clean(status.why)
    yield f"{progress_words(status)}, of generation {clean(status.target)}"
    if status.headroom:
        yield headroom_words(status)
    if status.target != status.latest:
        yield f"its document says {clean(status.latest)}"
    for name, why in found.state.failed.items():
        if why not in status.why:
            yield f"generation {clean(name)} was given up: {clean(why)}"
    if found.order is not None:
        yield order_words(found)
