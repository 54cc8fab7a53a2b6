"""Records that were read before: what a look costs is in proportion to what was written since the last one.

Each write of a row gives it a version that no other write of any row has, so that a row with a known version
is what it was, whoever wrote, and whatever became of the store meanwhile.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from reconciler.store import rows
from reconciler.store.database.questions import Ask, Row
from reconciler.values.records import Recorded

_MOST_ONE_BY_ONE = 500
"""Changed rows that are asked for by name; where more have changed, all are read."""
_OWN = "cluster = :cluster"


def new_version() -> str:
    """For all rows of one write."""
    return secrets.token_hex(8)


class RecordCache:
    """What was read of one cluster. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Recorded]] = {}
        """Identity → the version of its row and what that says. Never changed, only replaced."""

    def read(self, ask: Ask, cluster: str) -> dict[str, Recorded]:
        """All records, in the order of identities. `ask`: nobody writes between its questions."""
        known = self._known
        if known:
            versions = ask(f"SELECT resource, version FROM resources WHERE {_OWN}", cluster=cluster)
            current = {row["resource"]: row["version"] for row in versions}
            kept = {name: one for name, one in known.items() if current.get(name) == one[0]}
            changed = [name for name in current if name not in kept]
        if not known or len(changed) > _MOST_ONE_BY_ONE:
            found = _parse(ask(f"SELECT * FROM resources WHERE {_OWN}", cluster=cluster))
        elif changed or len(kept) != len(known):
            found = kept | _parse(_named_rows(ask, cluster, changed))
        else:
            found = known
        if found is not known:
            self._known = found = dict(sorted(found.items()))
        return {name: record for name, (_, record) in found.items()}


def _named_rows(ask: Ask, cluster: str, names: Sequence[str]) -> Sequence[Row]:
    if not names:
        return ()
    asked = {f"name{number}": name for number, name in enumerate(names)}
    places = ", ".join(f":{each}" for each in asked)
    return ask(f"SELECT * FROM resources WHERE {_OWN} AND resource IN ({places})", cluster=cluster, **asked)


def _parse(found: Sequence[Row]) -> dict[str, tuple[str, Recorded]]:
    return {row["resource"]: (row["version"], rows.record_from_row(row)) for row in found}
