"""Which module answers which question. Each has `answer(view, query)`, and is loaded when it is asked."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from bai.queries.models import Query
    from bai.queries.view import ClusterView
    from bai.render.printout import Printout

MODULES = {
    "apps": "bai.queries.apps.app_list",
    "audit": "bai.queries.audit",
    "capacity": "bai.queries.capacity",
    "describe": "bai.queries.description",
    "efficiency": "bai.queries.efficiency",
    "events": "bai.queries.events",
    "explain": "bai.queries.explanation",
    "get": "bai.queries.resources",
    "history": "bai.queries.history",
    "nodes": "bai.queries.nodes",
    "review": "bai.queries.review",
    "status": "bai.queries.status",
    "usage": "bai.queries.usage",
}

OF_STORE = frozenset({"audit", "efficiency", "events", "history", "usage"})
"""Those that the store answers, with what documents say only where it knows no such resource."""

OF_KERNELS = frozenset({"get"})
"""Those that records and kernels answer, with what an index of the documents says."""


def answer(view: ClusterView, query: Query) -> Printout:
    """What the command prints. Raises NoSuchResource, AmbiguousName, CommandError, and what looking
    raises."""
    module = importlib.import_module(MODULES[query.command])
    return cast("Printout", module.answer(view, query))
