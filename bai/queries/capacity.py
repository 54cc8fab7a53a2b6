"""`bai capacity`: what each resource group has, gives and still fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.queries.names.resource_names import resolve_name
from bai.render.analysis.capacity import capacity_json, capacity_sections
from bai.render.printout import Printout, Report
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.queries.models import CapacityQuery
    from bai.queries.view import ClusterView


def answer(view: ClusterView, query: CapacityQuery) -> Printout:
    """Raises NoSuchResource, AmbiguousName."""
    known = [identity_of("ResourceGroup", name) for name in view.desired.groups]
    only = ref_of(resolve_name(query.group, known, "ResourceGroup")).name if query.group else ""
    found = [one for one in view.capacities if not only or one.group == only]
    if query.form == "json":
        return Printout("bai.capacity/v1", {"groups": [capacity_json(one) for one in found]})
    return Printout(blocks=(Report(tuple(capacity_sections(found))),))
