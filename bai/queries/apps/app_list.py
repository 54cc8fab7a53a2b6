"""What `bai open` and `bai share` ask: the apps of one session or service, or why it has none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bai.queries.facts.apps import app_ports, apps_of
from bai.queries.names.resource_names import resolve_name
from bai.render.printout import Printout, plain_lines
from bai.render.resources.apps import app_lines, apps_json
from bai.render.resources.status import UNAPPLIED
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.queries.models import AppsQuery
    from bai.queries.view import ClusterView


def answer(view: ClusterView, query: AppsQuery) -> Printout:
    """`ports`: names of those that have a URL where the cluster has an AppProxy. Raises NoSuchResource,
    AmbiguousName."""
    desired, actual = view.desired, view.observed
    known = {each for each in {*desired.digests, *actual.existing} if view.sees(each)}
    identity = _resolved(query.session, known)
    found, item = apps_of(desired, actual, identity), actual.existing.get(identity)
    service = ref_of(identity).kind == "Service"
    if query.form != "json":
        return Printout(blocks=(plain_lines(app_lines(found)),))
    document = {
        "session": identity,
        "cluster": view.cluster,
        "phase": found[0].phase if service and found else UNAPPLIED if item is None else item.phase,
        "hasProxy": desired.repository.app_proxy_of(desired.cluster) is not None,
        "ports": list(app_ports(desired, identity)),
        "apps": apps_json(found),
    }
    return Printout("bai.apps/v1", document)


def _resolved(name: str, known: Iterable[str]) -> str:
    """A session or a service. Raises NoSuchResource, AmbiguousName."""
    them = [each for each in known if ref_of(each).kind in ("Session", "Service")]
    try:
        return resolve_name(name, them)
    except NoSuchResource:
        return resolve_name(name, them, "Session")  # Which says so of sessions.
