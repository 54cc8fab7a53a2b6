"""`bai get services`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from bai.queries.services.facts import service_facts
from bai.render.printout import Table
from bai.render.resources.services import COLUMNS, service_cells
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.queries.view import ClusterView


def service_table(view: ClusterView, only: Collection[str]) -> Table:
    """Those of `only` that are services, by identity."""
    names = sorted(each for each in only if ref_of(each).kind == "Service")
    rows = tuple(service_cells(service_facts(view, each)) for each in names)
    return Table(COLUMNS, rows, empty="There is no Service.")
