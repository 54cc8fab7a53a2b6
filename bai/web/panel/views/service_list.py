"""The list of services."""

from __future__ import annotations

from dataclasses import replace

from bai.render.printout import Printout, Table
from schemas.values.resource_ref import identity_of


def with_identities(found: Printout) -> Printout:
    """What `bai get services` prints, with identities in place of names: these lead to pages."""
    return replace(
        found, blocks=tuple(_named(each) if isinstance(each, Table) else each for each in found.blocks)
    )


def _named(table: Table) -> Table:
    """`name` and `project` are its first columns."""
    rows = tuple((identity_of("Service", row[0], row[1]), *row[1:]) for row in table.rows)
    return replace(table, rows=rows)
